"""A module that defines a task whose name is taken."""

from chong.worker import TaskContext, task


@task("broken.raises")
def raises(_: TaskContext) -> None:
    """Never found: the first definition counts."""
