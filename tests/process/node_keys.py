"""Scheduled tasks that all have keys, in a module of their own: a node that owns some of the buckets can start them."""

from node_tasks import note

from chong.worker import TaskContext, task


@task("tock.keys", every="1s", keys=["acme", "globex"])
def tock_keys(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("tock.all", every="1s", keys=["acme"], misfire="all")
def tock_all(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("tock.needy", every="1s", keys=["acme"])
def tock_needy(ctx: TaskContext, path: str) -> None:
    note(ctx, path)
