"""The process as it was before the task modules were imported: what they change of it is put back.

Every worker is a copy of the forkserver, so what one module changes at import would hold for the tasks of all. What
modules put into `os.environ` and `sys.path` stays: frameworks are set up that way.
"""

import locale
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from chong.worker.watch import complain

_LIMITS = {getattr(resource, name): name for name in reversed(dir(resource)) if name.startswith("RLIMIT_")}
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Pristine:
    """Taken before the imports; `restore` puts everything back and lets go of what it holds."""

    def __init__(self) -> None:
        self._here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # it may be renamed meanwhile
        self._umask = _umask()
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._affinity = os.sched_getaffinity(0)
        self._limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
        self._locale = locale.setlocale(locale.LC_ALL)
        self._recursion = sys.getrecursionlimit()
        self._switch = sys.getswitchinterval()
        self._hooks: tuple[Any, ...] = (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())

    def restore(self) -> None:
        """What the kernel does not allow is said, and the rest still done."""
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        os.umask(self._umask)
        _attempt("directory", lambda: os.fchdir(self._here))
        _attempt("niceness", lambda: os.setpriority(os.PRIO_PROCESS, 0, self._nice))
        _attempt("processors", lambda: os.sched_setaffinity(0, self._affinity))
        for limit, name in _LIMITS.items():
            _attempt(name, partial(_set_limit, limit, *self._limits[limit]))
        self._restore_interpreter()
        os.close(self._here)

    def _restore_interpreter(self) -> None:
        _attempt("locale", lambda: locale.setlocale(locale.LC_ALL, self._locale))
        sys.setrecursionlimit(self._recursion)
        sys.setswitchinterval(self._switch)
        trace, profile, threads_trace, threads_profile = self._hooks
        sys.settrace(trace)
        sys.setprofile(profile)
        threading.settrace(threads_trace)
        threading.setprofile(threads_profile)
        if (decimal := sys.modules.get("decimal")) is not None:
            decimal.setcontext(decimal.Context())


def reseed() -> None:
    """In a worker: numpy's global generator would be the same in all; `random` sees to itself at a fork."""
    seed = getattr(sys.modules.get("numpy.random"), "seed", None)
    if callable(seed):
        seed()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _set_limit(limit: int, soft: int, hard: int) -> None:
    """Only the privileged may raise a hard limit again; without that the soft one goes as high as it still may."""
    most = resource.getrlimit(limit)[1]
    try:
        resource.setrlimit(limit, (soft, hard))
    except ValueError:
        resource.setrlimit(limit, (most if soft == resource.RLIM_INFINITY else min(soft, most), most))
        raise


def _attempt(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except (OSError, ValueError, locale.Error) as error:
        complain(f"a task module changed the {what}, and it cannot be put back: {error}")
