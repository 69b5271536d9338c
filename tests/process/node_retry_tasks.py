"""Tasks with rules for their retries; imported by a real forkserver."""

import os
import time
from pathlib import Path

from node_tasks import note

from chong.worker import Backoff, Retry, TaskContext, TaskStopped, task

AT_ONCE = Backoff(first=0)


class Odd(type):
    """A metaclass that lies about its classes. (Python itself refuses to raise those of one that only fails.)"""

    def __instancecheck__(cls, instance: object) -> bool:
        return True

    __subclasscheck__ = __eq__ = __instancecheck__
    __hash__ = None


class OddError(Exception, metaclass=Odd):
    pass


class Final(Exception):  # noqa: N818
    pass


ERRORS = {
    "connection": lambda: ConnectionResetError("gone"),
    "value": lambda: ValueError("nonsense"),
    "final": lambda: Final("for good"),
    "odd": lambda: OddError("odd"),
    "keyboard": KeyboardInterrupt,
    "exit": lambda: SystemExit(0),
}


@task("retry.any", retries=2, backoff=AT_ONCE)
def anything(ctx: TaskContext, how: str) -> None:
    note(ctx, "begin")
    if how == "crash":
        os._exit(7)
    if how == "slow":
        ctx.sleep(60)
    error = ERRORS[how]()
    raise error


def _as(name: str, **options: object) -> object:
    return task(name, retries=2, backoff=AT_ONCE, **options)(anything.function)


only_os = _as("retry.only_os", retry_on=[OSError])
only_odd = _as("retry.only_odd", retry_on=[OddError])
only_timeouts = _as("retry.only_timeouts", retry_on=["timeout"], timeout=0.2)
but_final = _as("retry.but_final", no_retry_on=[Final])
but_crashes = _as("retry.but_crashes", no_retry_on=["crashed"])
but_values = _as("retry.but_values", retry_on=["exception"], no_retry_on=[ValueError])


@task("retry.waits", retries=3, backoff=Backoff(first=0.3, factor=2, most=0.6, jitter=0))
def waits(ctx: TaskContext) -> None:
    note(ctx, "begin")
    raise ValueError("again")


@task("retry.late", retries=1, backoff=Backoff(first=4, jitter=0))
def late(ctx: TaskContext) -> int:
    note(ctx, "begin")
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.attempt


@task("retry.gate", retries=1, backoff=AT_ONCE, no_retry_on=[Final])
def gate(ctx: TaskContext, path: str) -> None:
    """Fails for good when the file is there."""
    note(ctx, "begin")
    while not Path(path).exists():
        time.sleep(0.01)
    note(ctx, "end")
    raise Final("for good")


# --- those that ask for it themselves --------------------------------------------------------------------------------

BAD_WISHES = {
    "negative": lambda: Retry(after=-1),
    "nan": lambda: Retry(after=float("nan")),
    "far": lambda: Retry(after="31d"),
    "words": lambda: Retry("soon"),
    "reason": lambda: Retry(reason=7),
}


class Throttled(Retry):
    def __init__(self) -> None:
        """Without a word to the class above."""


@task("ask.plain", retries=2, backoff=60, no_retry_on=["exception"])
def ask_plain(ctx: TaskContext) -> None:
    """Neither its rules nor its long backoff say so."""
    note(ctx, "begin")
    raise Retry(after=0.3, reason="the page is not there yet")


@task("ask.async", retries=1, backoff=60)
async def ask_async(ctx: TaskContext) -> int:
    if ctx.attempt == 1:
        raise Retry(after="100ms")
    return ctx.attempt


@task("ask.later", retries=1, backoff=60)
def ask_later(ctx: TaskContext, after: float) -> int:
    if ctx.attempt == 1:
        ctx.checkpoint(state={"page": 7})
        raise Retry(after=after)
    return ctx.last_checkpoint["page"]


@task("ask.backoff", retries=1, backoff=0.05)
def ask_backoff(ctx: TaskContext) -> int:
    if ctx.attempt == 1:
        raise Throttled
    return ctx.attempt


@task("ask.once")
def ask_once() -> None:
    raise Retry(after=0.1, reason="once more")


@task("ask.badly", retries=1, backoff=AT_ONCE)
def ask_badly(ctx: TaskContext, how: str) -> None:
    wish = BAD_WISHES[how]()
    raise wish


@task("ask.stopped", retries=3)
def ask_stopped(ctx: TaskContext) -> None:
    note(ctx, "begin")
    try:
        ctx.sleep(60)
    except TaskStopped as stopped:
        raise Retry(after=0) from stopped
