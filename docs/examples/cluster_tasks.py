"""The tasks of the demo of a cluster: one that waits, one that is over at once, and one that a schedule runs."""

from chong.worker import TaskContext, task

CITIES = ["lima", "quito", "berlin", "vienna", "oslo", "zurich"]
"""Keys: two in the buckets of each of the three nodes."""


@task("city.watch")
def watch(ctx: TaskContext, rounds: int = 1_000_000) -> int:
    """Count slowly, with a checkpoint per round."""
    for done in range(1, rounds + 1):
        ctx.checkpoint(done=done, message=f"watching {ctx.key}")
        ctx.sleep(0.1)
    return rounds


@task("city.greet")
def greet(ctx: TaskContext) -> str:
    """Be over at once."""
    return f"hello {ctx.key}"


@task("city.chime", every="1s", keys=CITIES)
def chime(ctx: TaskContext) -> str:
    """Each second once for each city, on a node that owns its bucket."""
    return f"chime of {ctx.key}"
