"""Linux calls that Python does not name."""

import ctypes
import os
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_WAITID = {"x86_64": 247, "aarch64": 95}
"""The call's number; on another machine what a run used is not known, its end is."""
_MICRO = 1e-6
_LIBC = ctypes.CDLL(None, use_errno=True)


class Used(NamedTuple):
    """What a process that ended has used, with the children that it had waited for."""

    cpu_seconds: float
    max_rss_bytes: int


class _Rusage(ctypes.Structure):
    _fields_ = (
        ("user", ctypes.c_long * 2),
        ("system", ctypes.c_long * 2),
        ("max_rss", ctypes.c_long),
        ("rest", ctypes.c_long * 13),
    )


def become_subreaper() -> None:
    """Orphans among our descendants become our children, not those of PID 1."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def used_by(pidfd: int) -> Used | None:
    """What a dead child has used; it stays a zombie. None when it lives, is nobody's zombie, or cannot be known.

    `os.waitid` does not give it, and `os.wait4` would reap: the kernel fills it in for WNOWAIT as well.
    """
    number = _WAITID.get(os.uname().machine)
    if number is None:
        return None
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    found = _Rusage(max_rss=-1)
    if _LIBC.syscall(number, int(os.P_PIDFD), pidfd, None, options, ctypes.byref(found)) != 0:
        return None
    if found.max_rss < 0:  # untouched: it lives
        return None
    seconds = [part[0] + part[1] * _MICRO for part in (found.user, found.system)]
    return Used(round(sum(seconds), 6), found.max_rss * 1024)
