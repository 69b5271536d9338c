"""Tasks for the tests of `chong run`; imported by a real forkserver."""

# ruff: noqa: T201 - printing is what they are for

import os
import time
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum

from chong.worker import TaskContext, task


@task("greet")
def greet(ctx: TaskContext, name: str = "you", times: int = 1) -> dict:
    for done in range(times):
        print(f"hello {name}", flush=True)
        ctx.checkpoint(done=done + 1, total=times, message=f"greeting {name}")
    return {"name": name, "key": ctx.key, "attempt": ctx.attempt}


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Page:
    start: int
    end: int | None = None

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            raise ValueError("it ends before it starts")


@task("pages")
def pages(_: TaskContext, day: date, pages: list[Page], level: Level = Level.LOW, wait: timedelta | None = None) -> str:
    return repr((day, pages, level, wait))


@task("flaky", retries=1)
def flaky(ctx: TaskContext) -> int:
    print(f"attempt {ctx.attempt}", flush=True)
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.attempt


@task("broken")
def broken(_: TaskContext) -> None:
    raise ValueError("no such page")


@task("crashes", retries=6, backoff=0.01)
def crashes(ctx: TaskContext) -> int:
    if ctx.attempt <= 6:
        os._exit(7)
    return ctx.attempt


@task("waits")
def waits(ctx: TaskContext) -> None:
    print(f"pid {os.getpid()}", flush=True)
    while True:
        ctx.sleep(0.05)


@task("deaf", stop_grace=600)
def deaf(_: TaskContext) -> None:
    print(f"pid {os.getpid()}", flush=True)
    while True:
        time.sleep(0.05)
