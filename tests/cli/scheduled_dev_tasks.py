"""A task that comes round, and one that leaves it the time to; imported by a real forkserver."""

from pathlib import Path

from chong.worker import TaskContext, task


@task("comes_round", every="1s")
def comes_round(_: TaskContext) -> None:
    Path("fired").touch()


@task("leaves_room", retries=1, backoff=1.5)
def leaves_room(ctx: TaskContext) -> str:
    """Past at least one instant, and then with the only slot free for more than another one."""
    if ctx.attempt == 1:
        ctx.sleep(1.2)
        raise ValueError("once more")
    return "done"
