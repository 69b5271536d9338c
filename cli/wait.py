"""Waiting for a task to get somewhere, by asking the store now and then."""

import time
from collections.abc import Callable
from typing import TypeVar

from chong.store.errors import StoreUnavailable

OUTAGE_SECONDS = 30.0
"""Seconds for which a store may be out of reach before waiting is given up."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

Found = TypeVar("Found")


def wait_until(look: Callable[[], Found | None], *, timeout: float | None = None) -> Found | None:
    """What `look` finds, asked again until it finds something; None when it has not within `timeout` seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    answered = time.monotonic()
    while True:
        try:
            found = look()
            answered = time.monotonic()
        except StoreUnavailable:
            if time.monotonic() - answered > OUTAGE_SECONDS:
                raise
            found = None
        if found is not None:
            return found
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
