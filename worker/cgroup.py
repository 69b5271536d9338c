"""A run's own cgroup (version 2), by its path: everything that the run forks is in it, whatever it does.

Every call raises OSError as the kernel says it.
"""

import os
from contextlib import suppress
from time import sleep

from chong.worker.clock import monotonic

LOOK = 0.002


def make(parent: str, run: str) -> str:
    """The group of a run, empty."""
    path = f"{parent}/{run}"
    with suppress(FileExistsError):  # of a fork that was refused half-way
        os.mkdir(path)  # noqa: PTH102
    return path


def enter(path: str) -> None:
    """Put this process into the group; what it forks from now on is born there."""
    _write(f"{path}/cgroup.procs", "0")


def limit_memory(path: str, size: int) -> bool:
    """Let the group have so many bytes and no swap; False where the memory controller is not delegated."""
    try:
        _write(f"{path}/memory.max", str(size))
    except FileNotFoundError:
        return False
    with suppress(FileNotFoundError):  # a kernel without swap accounting
        _write(f"{path}/memory.swap.max", "0")
    return True


def oom_kills(path: str) -> int:
    """How many of the group's processes the kernel killed for want of memory; 0 where it does not count them."""
    try:
        lines = _read(f"{path}/memory.events").splitlines()
    except FileNotFoundError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def kill(path: str) -> None:
    """SIGKILL to all in it at once, also to what is being forked, frozen or not."""
    _write(f"{path}/cgroup.kill", "1")


def freeze(path: str) -> None:
    """Stop all in it; nothing of it can tell, or resist. A kill still works."""
    _write(f"{path}/cgroup.freeze", "1")


def thaw(path: str) -> None:
    _write(f"{path}/cgroup.freeze", "0")


def members(path: str) -> list[int]:
    """The pids of all that live in it and in what is below it; a group of threads alone does not tell."""
    pids: list[int] = []
    for found, _, _ in os.walk(path):
        with suppress(OSError):
            pids += map(int, _read(f"{found}/cgroup.procs").split())
    return pids


def is_populated(path: str) -> bool:
    """Whether anything in it lives; zombies do not."""
    return "populated 1" in _read(f"{path}/cgroup.events")


def remove(path: str) -> None:
    """An empty group, with those that a task has made in it; OSError when something lives there."""
    for found, _, _ in os.walk(path, topdown=False):
        os.rmdir(found)  # noqa: PTH106


def discard(path: str | None) -> None:
    """Remove it if there is one and it is empty; the next term clears what cannot go now."""
    if path is not None:
        with suppress(OSError):
            remove(path)


def clear(path: str, seconds: float) -> None:
    """Kill all in it, wait for its end and remove it; OSError when that takes longer."""
    kill(path)
    until = monotonic() + seconds
    while is_populated(path) and monotonic() < until:
        sleep(LOOK)
    remove(path)


def groups_of(pid: int) -> list[str]:
    """The names of the groups that a process is in, living or zombie, outermost first."""
    try:
        text = _read(f"/proc/{pid}/cgroup")
    except OSError:
        return []
    return next((line[3:].split("/") for line in text.splitlines() if line.startswith("0::")), [])


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    text = b""
    try:
        while part := os.read(descriptor, 1 << 16):
            text += part
        return text.decode(errors="replace")
    finally:
        os.close(descriptor)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
