"""The tasks that `make bench` runs."""

import ctypes
from time import perf_counter_ns
from typing import Any

from chong.worker import TaskContext, task

CALLS = 200_000


class Nothing:
    def method(self) -> None:
        """The cheapest thing that can be called."""


@task("bench.noop")
def noop(_: TaskContext) -> None:
    """Nothing: what is measured is everything around it."""


@task("bench.sleep")
def sleep(ctx: TaskContext) -> None:
    """A worker that waits, with a checkpoint every few milliseconds so that a stop finds it quickly."""
    while True:
        ctx.checkpoint()
        ctx.sleep(3600)


@task("bench.crash")
def crash(_: TaskContext) -> None:
    """A segfault."""
    ctypes.string_at(0)


@task("bench.checkpoint")
def checkpoint(ctx: TaskContext) -> dict[str, Any]:
    """Nanoseconds of a checkpoint that has nothing to send, and of an empty method, in alternating rounds."""
    nothing = Nothing()
    rounds = [(_nanoseconds(ctx.checkpoint), _nanoseconds(nothing.method)) for _ in range(5)]
    return {"checkpoint": min(one for one, _ in rounds), "method": min(other for _, other in rounds)}


def _nanoseconds(call: Any) -> float:
    begin = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (perf_counter_ns() - begin) / CALLS
