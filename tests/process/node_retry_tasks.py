"""Tasks with rules for their retries; imported by a real forkserver."""

import os
import time
from pathlib import Path

from node_tasks import note

from chong.worker import Backoff, TaskContext, task

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
