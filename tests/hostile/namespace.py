"""A pid namespace of a test's own, with its own /proc; what the test starts in it stays the test's child."""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from needs import unavailable
from node_bench import children

CLONE_NEWPID = 0x20000000
INIT = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""
"""Reaps what is left to it."""
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class Namespace:
    """Ends with all that lives in it."""

    def __init__(self) -> None:
        words = [*UNSHARE, sys.executable, "-c", INIT]
        self._outer = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != b"ready\n":
            unavailable(f"no pid namespace can be made here: {self._outer.communicate()[1].decode()[-200:]}")
        (self._init,) = children(self._outer.pid)

    def within(self, directory: Path) -> tuple[str, ...]:
        """A command that sees the /proc of the namespace and execs what follows, in this directory."""
        return ("nsenter", f"--mount=/proc/{self._init}/ns/mnt", "sh", "-c", f'cd {directory} && exec "$0" "$@"')

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread forks meanwhile is born in it; no thread can be started meanwhile."""
        move(self._init)
        try:
            yield
        finally:
            move(os.getpid())

    def close(self) -> None:
        self._outer.kill()
        self._outer.communicate()


def move(pid: int) -> None:
    """Fork into that process's namespace from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWPID) == -1:
            raise OSError(ctypes.get_errno(), f"the pid namespace of {pid} cannot be entered")
    finally:
        os.close(descriptor)


def pid_within(pid: int) -> int:
    """As the process itself sees it, in the innermost namespace that it is in."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))
