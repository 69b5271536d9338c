"""Tasks that come to a bad end, each in a way of its own."""

import ctypes
import os
import sys
import time

from chong.worker import TaskContext, task


@task("broken.raises")
def raises(_: TaskContext) -> None:
    raise ValueError("no such page")


@task("broken.exits")
def exits(_: TaskContext) -> None:
    sys.exit("no way")


@task("broken.leaves")
def leaves(_: TaskContext) -> None:
    os._exit(7)


@task("broken.segfaults")
def segfaults(_: TaskContext) -> None:
    ctypes.string_at(0)


@task("broken.hungry", memory="512M")
def hungry(_: TaskContext) -> None:
    bytearray(1 << 30)


@task("broken.slow", timeout=0.3, stop_grace=0.2, kill_grace=0.2)
def slow(_: TaskContext) -> None:
    time.sleep(3600)


@task("broken.swallows", stop_grace=0.4, kill_grace=0.4)
def swallows(ctx: TaskContext) -> None:
    while True:
        try:
            ctx.checkpoint(message="still here")
            time.sleep(0.01)
        except BaseException:
            continue


@task("broken.interrupted", stop_grace=0.3, kill_grace=30, interruptible=True)
def interrupted(ctx: TaskContext) -> None:
    ctx.checkpoint(message="begun")
    time.sleep(3600)


@task("broken.stubborn", stop_grace=30)
def stubborn(ctx: TaskContext) -> int:
    ctx.checkpoint(message="begun")
    while not ctx.stop_requested:
        time.sleep(0.01)
    return 3


@task("broken.belated", timeout=0.3, stop_grace=30)
def belated(_: TaskContext) -> int:
    time.sleep(1)
    return 3


@task("broken.loops", stop_grace=0.3, kill_grace=0.3)
def loops(ctx: TaskContext) -> None:
    ctx.checkpoint(message="begun")
    sum(range(10**13))


@task("broken.floods", log_max="64K")
def floods(_: TaskContext) -> int:
    print("first line", flush=True)  # noqa: T201
    for _line in range(20_000):
        print("x" * 100)  # noqa: T201
    print("last line", flush=True)  # noqa: T201
    time.sleep(1.5)  # the node looks at the sizes of logs once in a second
    return 1


@task("broken.waits")
def waits(ctx: TaskContext) -> None:
    while True:
        ctx.checkpoint(message="waiting")
        ctx.sleep(0.05)
