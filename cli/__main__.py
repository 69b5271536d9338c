"""`python -m chong.cli` is `chong`."""

import sys

from chong.cli.main import run

sys.exit(run())
