"""The process as it was before a task module was imported: what the module changes of it is put back.

Every worker is a copy of the forkserver, so what one module changes at import would hold for the tasks of all. What
modules put into `os.environ` and `sys.path` stays: frameworks are set up that way. Signals see `dispositions`.
"""

import io
import locale
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import partial
from typing import Any

from chong.worker.watch import complain

FIRST_OWN = 10
"""Descriptors below are a worker's; what a process has to keep for itself lies above."""
_LIMITS = {getattr(resource, name): name for name in reversed(dir(resource)) if name.startswith("RLIMIT_")}
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Pristine:
    """Taken before the imports; `restore` after each of them, `close` after the last."""

    def __init__(self) -> None:
        self._streams = tuple(fcntl(number, F_DUPFD_CLOEXEC, FIRST_OWN) for number in range(3))
        here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # by descriptor: it may be renamed meanwhile
        self._here = fcntl(here, F_DUPFD_CLOEXEC, FIRST_OWN)
        os.close(here)
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
        self._restore_streams()
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        os.umask(self._umask)
        _attempt("directory", lambda: os.fchdir(self._here))
        _attempt("niceness", lambda: os.setpriority(os.PRIO_PROCESS, 0, self._nice))
        _attempt("processors", lambda: os.sched_setaffinity(0, self._affinity))
        for limit, name in _LIMITS.items():
            _attempt(name, partial(_set_limit, limit, *self._limits[limit]))
        self._restore_interpreter()

    def close(self) -> None:
        for descriptor in (*self._streams, self._here):
            os.close(descriptor)

    def _restore_streams(self) -> None:
        """Output is flushed: what lies in a buffer would be printed by every process that is forked from here."""
        for number, copy in enumerate(self._streams):
            os.dup2(copy, number)
        sys.stdout = _usable(sys.stdout, 1)
        sys.stderr = _usable(sys.stderr, 2)

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


def _usable(stream: object, number: int) -> io.TextIOWrapper:
    """Whatever can be flushed is left in its place."""
    try:
        stream.flush()  # type: ignore[attr-defined]
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    except Exception:  # noqa: BLE001 -- closed, None, or something of the module's own
        return open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)
    return stream  # type: ignore[return-value]


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
