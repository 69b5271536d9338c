"""Linux calls that Python does not name."""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans among our descendants become our children, not those of PID 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
