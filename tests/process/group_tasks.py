"""Tasks that leave processes behind in every way that loses a process group, a marker and a log."""

import json
import os
import signal
import time
from pathlib import Path

from node_tasks import note

from chong.worker import TaskContext, task

HOPPING_SECONDS = 60


def escape(out: int) -> None:
    """A process of its own session that has nothing of its run: no marker, no output, no parent."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.write(out, b"%d\n" % os.getpid())
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
    os.waitpid(pid, 0)


def hop() -> None:
    """Fork, let the child go on in a session of its own, end: whoever looks at it looks at a dead one."""
    until = time.monotonic() + HOPPING_SECONDS
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)


@task("group.escapes", stop_grace=0.3, kill_grace=0.3)
def escapes(ctx: TaskContext, told: str, count: int = 5, until: str | None = None) -> str:
    """Tells the pids of its escaped processes and of itself, and its cgroup; waits for the file `until`."""
    ours, theirs = os.pipe()
    for _ in range(count):
        escape(theirs)
    with os.fdopen(ours) as pipe:
        pids = [int(pipe.readline()) for _ in range(count)]
    group = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    draft = Path(told + ".new")
    draft.write_text(json.dumps({"pids": pids, "own": os.getpid(), "group": group}))
    draft.rename(told)
    while until is not None and not Path(until).exists():
        ctx.checkpoint()
        time.sleep(0.01)
    return group


@task("group.hops")
def hops(ctx: TaskContext, told: str) -> None:
    for _ in range(3):
        if os.fork() == 0:
            hop()
    Path(told).touch()
    time.sleep(0.1)


@task("group.counts")
def counts(ctx: TaskContext, told: str) -> None:
    """Counts in a process of its own session, which a signal to the group does not reach."""
    if os.fork() == 0:
        os.setsid()
        with Path(told).open("w", buffering=1) as file:
            while True:
                file.write(".")
                file.flush()
                time.sleep(0.005)
    while True:
        ctx.checkpoint()
        time.sleep(0.01)


@task("group.nested")
def nested(ctx: TaskContext) -> str:
    """A cgroup within its own, with a process in it."""
    inner = Path("/proc/self/cgroup").read_text().splitlines()[-1][3:]
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    own = Path(next(words[1] for words in mounts if words[2] == "cgroup2") + inner)
    (own / "mine").mkdir()
    if os.fork() == 0:
        os.setsid()
        (own / "mine" / "cgroup.procs").write_text("0")
        time.sleep(600)
        os._exit(0)
    while not (own / "mine" / "cgroup.procs").read_text():
        time.sleep(0.005)
    return str(own)


@task("group.heeds", stop_grace=0.2)
def heeds(ctx: TaskContext) -> None:
    """Has something of its own to do on SIGTERM."""

    def leave(*_: object) -> None:
        note(ctx, "cleaned")
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    note(ctx, "begin")
    time.sleep(600)
