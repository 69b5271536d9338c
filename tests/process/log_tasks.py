"""Tasks that write a lot; imported by a real forkserver."""

import os
import time
from pathlib import Path

from chong.worker import Backoff, TaskContext, task

MEBIBYTE = 1024 * 1024
LINE = b"x" * 63 + b"\n"


def flood(mebibytes: int) -> None:
    for _ in range(mebibytes * 16):
        os.write(1, LINE * 1024)


@task("log.flood", log_max="64K")
def flooded(_: TaskContext, mebibytes: int) -> int:
    """Writes it all at once, and ends."""
    flood(mebibytes)
    os.write(1, b"the end\n")
    return mebibytes


@task("log.floods", log_max="1M", stop_grace=1, kill_grace=1)
def floods(ctx: TaskContext, path: str) -> None:
    """Writes on until the file is there."""
    while not Path(path).exists():
        flood(1)
        ctx.checkpoint()
        time.sleep(0.005)
    os.write(1, b"the end\n")


@task("log.floods.later", log_max="1M", stop_grace=1, kill_grace=1)
def floods_later(ctx: TaskContext, path: str, until: str) -> None:
    """As `log.floods`, from when the file `path` is there."""
    while not Path(path).exists():
        ctx.sleep(0.01)
    floods(ctx, until)


@task("log.fails", log_max="64M", retries=1, backoff=Backoff(first=300))
def fails(_: TaskContext) -> None:
    """Has written much, and waits for its next attempt."""
    flood(20)
    raise ValueError("not this time")
