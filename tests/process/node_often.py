"""A schedule with many keys, in a module of its own: many firings each second."""

from node_tasks import note

from chong.worker import TaskContext, task


@task("often", every="1s", keys=[f"k{number}" for number in range(16)])
def often(ctx: TaskContext) -> None:
    note(ctx, "begin")
