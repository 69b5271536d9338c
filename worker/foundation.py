"""What a forkserver does to its own process, before and after the imports, so that a fork has little left to do."""

import contextlib
import fcntl
import gc
import os
import resource
import select
import signal
from dataclasses import dataclass

from setproctitle import setproctitle

from chong.worker.birth import MARKER
from chong.worker.dispositions import reset_signals
from chong.worker.kernel import become_subreaper
from chong.worker.pristine import FIRST_OWN, Pristine
from chong.worker.settings import ForkserverSettings


@dataclass(frozen=True, slots=True)
class Foundation:
    listener: int
    lock: int
    null: int
    epoll: select.epoll
    soft_files: int  # the limit of open files before it was raised for the forkserver
    pristine: Pristine
    unshared: list[int]
    """What is closed in a process that a module forks while it is imported."""

    @classmethod
    def lay(cls, settings: ForkserverSettings) -> "Foundation":
        """Before the imports. BlockingIOError when another process holds the lock."""
        with contextlib.suppress(PermissionError):  # it may lead a group already
            os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.environ.pop(MARKER, None)  # this may be a task's child itself
        become_subreaper()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        listener = _move_up(settings.listen_fd)
        null = _move_up(os.open(os.devnull, os.O_RDWR))
        _take_places(null)
        os.set_blocking(listener, False)
        lock = _lock(settings.lock)
        setproctitle(f"chong: forkserver g{settings.generation}")
        soft_files = settings.open_files or soft
        return cls(listener, lock, null, select.epoll(), soft_files, Pristine(), _unshare(listener, lock))

    @property
    def open_files(self) -> tuple[int, int]:
        """The workers' limit; a module may have lowered it for good."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return min(self.soft_files, hard), hard

    def settle(self) -> None:
        """After the imports: undo what modules did to the process, and freeze the heap that workers share."""
        self.pristine.restore()
        self.pristine.close()
        reset_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.unshared.clear()
        gc.disable()
        gc.collect()
        gc.freeze()


def _move_up(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN)
    os.close(descriptor)
    return moved


def _take_places(null: int) -> None:
    """So that no module's file is where a worker's channel will be."""
    os.dup2(null, 0)
    for number in range(3, FIRST_OWN):
        os.dup2(null, number, inheritable=False)


def _lock(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _unshare(*descriptors: int) -> list[int]:
    """What a module forks and leaves behind would keep the lock, and let a connect to a dead forkserver wait."""
    left = list(descriptors)

    def close_all() -> None:
        while left:
            os.close(left.pop())

    os.register_at_fork(after_in_child=close_all)
    return left
