"""Tasks that turn against the processes above them, or cannot be ended."""

import os
import signal
import time
from pathlib import Path

from bodies import wait_for_the_end
from channel_bodies import casts_off_its_leash
from node_tasks import note

from chong.worker import TaskContext, task


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@task("against.above")
def against_above(ctx: TaskContext, number: int, title: str) -> str:
    """A signal to the nearest process above that is called so, and to no other one."""
    pid = os.getpid()
    while not Path(f"/proc/{pid}/cmdline").read_text().startswith(title):
        pid = parent_of(pid)
    note(ctx, "begin")
    os.kill(pid, number)
    ctx.sleep(2)
    return "still here"


@task("kills.all")
def kills_all(_: TaskContext, outer: int, gate: str) -> None:
    """Everything that it may signal, if that is a world of its own, once the gate is open."""
    if Path("/proc/self/ns/pid").stat().st_ino == outer or len(list(Path("/proc").glob("[0-9]*"))) > 10:
        raise RuntimeError("expected a pid namespace with a handful of processes")
    while not Path(gate).exists():
        time.sleep(0.01)
    os.kill(-1, signal.SIGKILL)
    wait_for_the_end()


@task("writes.on", stop_grace=0.4, kill_grace=0.4)
def writes_on(ctx: TaskContext, path: str) -> None:
    note(ctx, "begin")
    with Path(path).open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 100)
            file.seek(0)
            os.fsync(file.fileno())


@task("unleashed")
def unleashed(ctx: TaskContext) -> None:
    """Nothing would end it when nobody is left above it."""
    casts_off_its_leash(ctx)
    note(ctx, "begin")
    wait_for_the_end()
