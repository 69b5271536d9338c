"""What a task module imports from chong."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chong.worker.context import TaskContext
    from chong.worker.definition import task
    from chong.worker.listener import TaskStopped
    from chong.worker.options import Backoff
    from chong.worker.plan import call, group, pipeline
    from chong.worker.retrying import Retry
    from chong.worker.schedules import Cron, Every

__all__ = [
    "Backoff",
    "Cron",
    "Every",
    "Retry",
    "TaskContext",
    "TaskStopped",
    "call",
    "group",
    "pipeline",
    "task",
]


_HOMES = {
    "Backoff": "options",
    "Cron": "schedules",
    "Every": "schedules",
    "Retry": "retrying",
    "TaskContext": "context",
    "TaskStopped": "listener",
    "call": "plan",
    "group": "plan",
    "pipeline": "plan",
    "task": "definition",
}


def __getattr__(name: str) -> object:
    # Loaded on demand: short-lived commands import single modules of this package, and none of these.
    if name not in _HOMES:
        raise AttributeError(f"module 'chong.worker' has no attribute {name!r}")
    return getattr(import_module(f"chong.worker.{_HOMES[name]}"), name)
