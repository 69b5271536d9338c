"""What a task module imports from chong."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chong.worker.context import TaskContext, TaskStopped
    from chong.worker.definition import task

__all__ = ["TaskContext", "TaskStopped", "task"]


def __getattr__(name: str) -> object:
    # Loaded on demand: short-lived commands import single modules of this package, and none of these.
    if name in {"TaskContext", "TaskStopped"}:
        from chong.worker import context  # noqa: PLC0415

        return getattr(context, name)
    if name == "task":
        from chong.worker.definition import task  # noqa: PLC0415

        return task
    raise AttributeError(f"module 'chong.worker' has no attribute {name!r}")
