"""What some tests need of the machine: without it they are skipped, visibly, or fail where all of them have to run."""

import os
from typing import NoReturn

import pytest

EVERYTHING = os.environ.get("CHONG_TEST_ALL") == "1"
"""As in the gate, where a skip would look like a pass."""


def unavailable(reason: str) -> NoReturn:
    if EVERYTHING:
        pytest.fail(f"CHONG_TEST_ALL=1, and {reason}")
    pytest.skip(reason)


as_root = pytest.mark.skipif(os.geteuid() != 0 and not EVERYTHING, reason="only root may become another user")
