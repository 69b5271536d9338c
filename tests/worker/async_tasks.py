"""Async tasks for the tests of workers; imported by a real forkserver."""

import asyncio
import contextvars
import functools
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

from chong.worker import TaskContext, TaskStopped, task

WHO = contextvars.ContextVar("WHO", default="nobody")


def is_open(ctx):
    return Path(ctx.params["gate"]).exists()


def hold_up(until):
    """What no async function should do."""
    while not until():
        time.sleep(0.001)


def say(*words):
    print(*words, flush=True)  # noqa: T201


@task("async.pages")
async def pages(ctx: TaskContext, count: int = 2) -> dict:
    for done in range(1, count + 1):
        await asyncio.sleep(0)
        ctx.checkpoint(done=done, total=count)
    return {"pages": count, "key": ctx.key}


@task("async.wait")
async def wait(ctx):
    ctx.checkpoint(message="waiting")
    try:
        await asyncio.sleep(60)
    finally:
        say("cleaned", ctx.stop_requested)


async def _add(ctx, first, second):
    await asyncio.sleep(0)
    return first + second


class Adder:
    async def __call__(self, ctx, first, second):
        return await _add(ctx, first, second)

    async def add(self, ctx, first, second):
        return await _add(ctx, first, second)


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


partial = task("async.partial")(functools.partial(_add, second=2))
instance = task("async.instance")(Adder())
method = task("async.method")(Adder().add)
wrapped = task("async.wrapped")(decorated(_add))


@task("async.future")
def future(ctx):
    """Something to await that is no coroutine."""
    return asyncio.new_event_loop().create_future()


@task("async.loop")
async def loop(ctx):
    """Checkpoints all along; counts how often one raised."""
    turns = raised = 0
    try:
        while True:
            turns += 1
            try:
                ctx.checkpoint(done=turns)
            except BaseException:
                raised += 1
            await asyncio.sleep(0.001)
    finally:
        say("raised", raised)


@task("async.gated")
async def gated(ctx, gate):
    """Awaits in its clean-up, and says each time it is cancelled."""
    ctx.checkpoint(message="waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say("cancelled")
        try:
            while not is_open(ctx):
                ctx.checkpoint()
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            say("cancelled")
        say("cleaned")
        raise


interruptible = task("async.interruptible", interruptible=True)(gated.function)


@task("async.swallow")
async def swallow(ctx):
    ctx.checkpoint(message="waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "swallowed"


@task("async.polite")
async def polite(ctx):
    """Never awaits anything, and leaves in the step in which it sees the stop."""
    ctx.checkpoint(message="looking")
    hold_up(lambda: ctx.stop_requested)
    return "left by itself"


@task("async.checks")
async def checks(ctx):
    """Its last checkpoint comes after the stop, and nothing awaits after it."""
    ctx.checkpoint(message="blocking")
    hold_up(lambda: select.select([3], [], []))
    ctx.checkpoint(done=1)
    return "done"


@task("async.fail")
async def fail(ctx, how):
    await asyncio.sleep(0)
    await FAILURES[how]()


async def _raise(error):
    raise error


async def _cancel_self():
    asyncio.current_task().cancel()
    await asyncio.sleep(60)


async def _group():
    async with asyncio.TaskGroup() as group:
        group.create_task(_raise(ValueError("in a group")))
        group.create_task(asyncio.sleep(60))


async def _exit_elsewhere():
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(60)


async def _stop_loop():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(60)


FAILURES = {
    "plain": lambda: _raise(ValueError("that was wrong")),
    "exit": lambda: _raise(SystemExit(0)),
    "keyboard": lambda: _raise(KeyboardInterrupt()),
    "cancelled": lambda: _raise(asyncio.CancelledError()),
    "cancels itself": _cancel_self,
    "stopped unasked": lambda: _raise(TaskStopped("nobody asked")),
    "group": _group,
    "timeout": lambda: asyncio.wait_for(asyncio.sleep(60), 0.01),
    "exit elsewhere": _exit_elsewhere,
    "stopped loop": _stop_loop,
}


@task("async.context_sleep")
async def context_sleep(ctx):
    ctx.sleep(60)


@task("async.thread")
async def thread(ctx, seconds=60):
    ctx.checkpoint(message="in a thread")
    await asyncio.to_thread(time.sleep, seconds)
    return "slept"


@task("async.threads_look")
async def threads_look(ctx):
    """A thread sees the stop that the loop has heard."""

    def look():
        while not ctx.stop_requested:
            time.sleep(0.005)
        say("the thread saw it")

    ctx.checkpoint(message="in a thread")
    looking = asyncio.create_task(asyncio.to_thread(look))
    try:
        await asyncio.shield(looking)
    finally:
        await looking


@task("async.pause")
async def pause(ctx):
    """Two tasks on one loop."""
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.001)

    beating = asyncio.create_task(beat())
    while True:
        await asyncio.sleep(0.001)
        ctx.checkpoint(done=beats)
        beating.done()


@task("async.library")
async def library(ctx):
    """What authors use of asyncio."""
    WHO.set("me")
    found = {"context": await asyncio.create_task(_who()), "current": asyncio.current_task().done()}
    child = await asyncio.create_subprocess_exec("sh", "-c", "echo out; exit 3", stdout=asyncio.subprocess.PIPE)
    found["output"] = (await child.communicate())[0].decode()
    found["code"] = child.returncode
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(_add(ctx, number, 1)) for number in (1, 2)]
    found["group"] = [each.result() for each in both]
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
    except TimeoutError:
        found["timeout"] = True
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    os.kill(os.getpid(), signal.SIGURG)
    os.kill(os.getpid(), signal.SIGUSR1)
    await heard.wait()
    found["signal"] = True
    return found


async def _who():
    return WHO.get()


@task("async.left")
async def left(ctx, how):
    """Returns while something is left on its loop."""
    started = asyncio.Event()
    kept.append(asyncio.create_task(LEFT[how](started)))
    await started.wait()
    return "done"


kept = []


async def _left_cleans(started):
    started.set()
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        say("the other one cleaned up")


async def _left_fails(started):
    started.set()
    try:
        await asyncio.sleep(60)
    finally:
        raise ValueError("in the other one's clean-up")


async def _left_exits(started):
    started.set()
    try:
        await asyncio.sleep(60)
    finally:
        sys.exit(7)


async def _left_hangs(started):
    started.set()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


async def _left_generator(started):
    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0.01)
            say("the generator was closed")

    generator = numbers()
    kept.append(generator)
    async for _ in generator:
        started.set()
        break


LEFT = {
    "cleans": _left_cleans,
    "fails": _left_fails,
    "exits": _left_exits,
    "hangs": _left_hangs,
    "generator": _left_generator,
}


@task("async.stopped_with_others")
async def stopped_with_others(ctx, how):
    started = asyncio.Event()
    kept.append(asyncio.create_task(LEFT[how](started)))
    await started.wait()
    ctx.checkpoint(message="waiting")
    await asyncio.sleep(60)


@task("async.twin")
async def twin(ctx):
    """Forks; the child comes back to the loop, and to chong."""
    pid = os.fork()
    if pid == 0:
        ctx.checkpoint(message="from the twin")
        ctx.stop_requested  # noqa: B018
        await asyncio.sleep(0.01)
        return "twin"
    await asyncio.to_thread(os.waitpid, pid, 0)
    return "parent"


@task("async.lasting_twin")
async def lasting_twin(ctx):
    """The child stays on the loop that it shares with its parent: by a future, asyncio refuses it all else."""
    never = asyncio.get_running_loop().create_future()
    pid = os.fork()
    if pid == 0:
        await never
        return "twin"
    ctx.checkpoint(message=str(pid))
    await never
    return "parent"


@task("async.blocked", interruptible=True)
async def blocked(ctx):
    """Holds its loop up, so that nothing is heard unless by a handler."""
    ctx.checkpoint(message="blocked")
    hold_up(lambda: ctx._channel.stop)
    say("done with the call")
    await asyncio.sleep(60)


@task("async.daemon")
async def daemon(ctx):
    """Its thread is no daemon, and never ends."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    ctx.checkpoint(message="waiting")
    await asyncio.sleep(60)
