"""Scheduled tasks, in a module of their own: whoever loads it has them run each second."""

import time

from node_tasks import note

from chong.worker import TaskContext, task


@task("tick", every="1s")
def tick(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("tick.keys", every="1s", keys=["acme", "globex"])
def tick_keys(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("tick.slow", every="1s")
def tick_slow(ctx: TaskContext) -> None:
    note(ctx, "begin")
    while True:
        ctx.checkpoint()
        time.sleep(0.01)


@task("tick.needy", every="1s")
def tick_needy(ctx: TaskContext, path: str) -> None:
    note(ctx, path)
