"""Waits for a condition, for all tests: nobody sleeps and hopes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT = 40.0
"""Seconds to wait for what must come; generous, the machine may be busy. Promises are asserted on stored times."""


def pauses() -> Iterator[float]:
    """Sleeps between two looks, longer each time: many tests wait at once, and looks cost time."""
    pause = 0.005
    while True:
        time.sleep(pause)
        yield pause
        pause = min(pause * 1.15, 0.05)


def wait_until(condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """What `condition` returns, as soon as it is true."""
    end = time.monotonic() + limit
    between = pauses()
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: not within {limit} s"
        next(between)
    return found


def state_of(pid: int) -> str:
    """A process's state in the letter that `ps` shows: Z is a zombie, T one that SIGSTOP has stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def is_alive(pid: int) -> bool:
    """Zombies are not."""
    try:
        return state_of(pid) != "Z"
    except OSError:
        return False
