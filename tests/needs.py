"""What some tests need of the machine: without it they are skipped, visibly, or fail where all of them have to run."""

import os
import shutil
from typing import NoReturn

import pytest

EVERYTHING = os.environ.get("CHONG_TEST_ALL") == "1"
"""As in the gate, where a skip would look like a pass."""
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin"
"""Where programs are looked for; servers lie where only root looks."""


def unavailable(reason: str) -> NoReturn:
    if EVERYTHING:
        pytest.fail(f"CHONG_TEST_ALL=1, and {reason}")
    pytest.skip(reason)


def program(name: str) -> str:
    """Where it lies. Without it the test is skipped in the gate too, which promises to ask for no such program."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        pytest.skip(f"{name} is not installed; what chong does with it was not tested")
    return found


as_root = pytest.mark.skipif(os.geteuid() != 0 and not EVERYTHING, reason="only root may become another user")
