"""A word about an answer that takes its time, so that nobody takes a command that waits for one that hangs."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from chong.cli.screen import remark

REMARK_SECONDS = 1.0
"""Seconds without an answer after which it is said for what it waits."""


@contextlib.contextmanager
def remarked_when_late(awaited: Callable[[], str]) -> Iterator[None]:
    """`awaited` says for what the command waits, when that has lasted for a while; it is called in another thread."""
    waiting = threading.Timer(REMARK_SECONDS, lambda: remark(f"chong: no answer yet: {awaited()}"))
    waiting.daemon = True
    waiting.start()
    try:
        yield
    finally:
        waiting.cancel()
