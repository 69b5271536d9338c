"""What is left of a run after its leader: orphans came to us, the subreaper, as children that nobody forked here."""

import os
import signal
import threading
from collections.abc import Collection, Mapping
from os import getpid

from chong.worker.birth import MARKER
from chong.worker.cgroup import groups_of
from chong.worker.held import Held

_MARKER = f"{MARKER}=".encode()
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Strays:
    """Finds them, and says whose they are. A child cannot change its pid until it is reaped, and we alone reap."""

    def __init__(self, runs: Mapping[str, Held]) -> None:
        self._runs = runs
        # Kept open: with every descriptor in use, ends must still be told.
        self._children = os.open(f"/proc/self/task/{threading.get_native_id()}/children", os.O_RDONLY | os.O_CLOEXEC)
        self._owners: dict[int, str] = {}

    def find(self, leaders: Collection[int]) -> dict[int, str]:
        """Living strays by pid, each with its run, which may be unknown by now; dead ones are reaped."""
        unknown = self._read_children().difference(leaders)
        if not unknown:
            self._owners.clear()
            return self._owners
        living = {pid for pid in unknown if not reap(pid)}
        self._owners = {pid: owner for pid in living if (owner := self._owner(pid)) is not None}
        return self._owners

    def _read_children(self) -> set[int]:
        return _pids_in(self._children)

    def _owner(self, pid: int) -> str | None:
        known = self._owners.get(pid)
        found = known or self._owner_by_cgroup(pid) or self._owner_by_group(pid)
        found = found or _owner_by_marker(pid) or self._owner_by_log(pid)
        return found or self._owner_by_age(pid)

    def _owner_by_age(self, pid: int) -> str | None:
        """One that has cast off group, marker and log belongs to some run that was there before it.

        As long as several of those live it cannot be told which; the last of them to end takes it along. A child that
        is older than every run is a task module's own.
        """
        start = _start_of(pid)
        elders = [held for held in self._runs.values() if start is not None and held.born <= start + TICK]
        living = [held for held in elders if held.is_alive]
        if len(elders) == 1 or (elders and not living):
            return elders[-1].run
        return None

    def _owner_by_cgroup(self, pid: int) -> str | None:
        """Where runs have cgroups this is certain, and nothing but another root's help leads out of one."""
        return next((group for group in groups_of(pid) if group in self._runs), None)

    def _owner_by_group(self, pid: int) -> str | None:
        try:
            groups = {os.getpgid(pid), os.getsid(pid)}
        except OSError:
            return None
        return next((held.run for held in self._runs.values() if held.pid in groups), None)

    def _owner_by_log(self, pid: int) -> str | None:
        """A fork without exec shows no marker, but where its output goes."""
        try:
            files = {_identity(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}  # noqa: PTH208
        except OSError:
            return None
        return next((held.run for held in self._runs.values() if held.log in files), None)


def own_children() -> set[int]:
    """All children of this process's main thread, dead ones too."""
    pid = getpid()
    descriptor = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pids_in(descriptor)
    finally:
        os.close(descriptor)


def _pids_in(descriptor: int) -> set[int]:
    text = b""
    while part := os.pread(descriptor, 1 << 16, len(text)):
        text += part
    return {int(pid) for pid in text.split()}


def _start_of(pid: int) -> float | None:
    """When a process started, in seconds since the boot."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        words = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return int(words[19]) * TICK


def end_stray(pid: int) -> int | None:
    """SIGKILL by pidfd, which the caller watches; None when it is gone already."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:  # it has become another user's
        os.close(pidfd)
        raise
    return pidfd


def reap(pid: int) -> bool:
    """Whether it is gone now."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _owner_by_marker(pid: int) -> str | None:
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        words = os.read(descriptor, 1 << 20).split(b"\0")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return next((word[len(_MARKER) :].decode(errors="replace") for word in words if word.startswith(_MARKER)), None)
