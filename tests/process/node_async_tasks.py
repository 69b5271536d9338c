"""Async tasks for the tests of whole nodes; imported by a real forkserver."""

import asyncio
import time
from typing import Any

from node_tasks import note

from chong.worker import TaskContext, task


@task("async.hold", stop_grace=5)
async def hold(ctx: TaskContext, seconds: float = 60) -> str:
    """Cooperative, with a clean-up that awaits."""
    note(ctx, "begin")
    try:
        async with asyncio.timeout(seconds):
            while True:
                ctx.checkpoint(done=1)
                await asyncio.sleep(0.01)
    except TimeoutError:
        return "held"
    finally:
        await asyncio.sleep(0.05)
        note(ctx, "cleaned")


timed = task("async.timed", timeout=0.3, stop_grace=5)(hold.function)


@task("async.thread", stop_grace=5, kill_grace=5)
async def thread(ctx: TaskContext) -> None:
    note(ctx, "begin")
    await asyncio.to_thread(time.sleep, 60)


@task("async.stubborn", stop_grace=0.4, kill_grace=0.4)
async def stubborn(ctx: TaskContext) -> None:
    """Swallows every cancellation."""
    note(ctx, "begin")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@task("async.slow", stop_grace=0.3, kill_grace=20)
async def slow(ctx: TaskContext) -> None:
    """Takes longer than its grace to clean up."""
    note(ctx, "begin")
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(1)
        note(ctx, "cleaned")


interruptible = task("async.interruptible", stop_grace=0.3, kill_grace=20, interruptible=True)(slow.function)


@task("async.swallow")
async def swallow(ctx: TaskContext) -> str:
    note(ctx, "begin")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "swallowed"
    return "slept"


@task("async.cancels_itself")
async def cancels_itself(ctx: TaskContext) -> None:
    raise asyncio.CancelledError("by itself")


@task("async.leaves")
async def leaves(ctx: TaskContext) -> dict[str, Any]:
    """Something on its loop does not want to end."""
    asyncio.get_running_loop().left = asyncio.create_task(stubborn.function(ctx))
    await asyncio.sleep(0)
    return {"kept": True}
