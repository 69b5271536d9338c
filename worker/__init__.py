"""What a task module imports from chong."""

from chong.worker.context import TaskContext, TaskStopped
from chong.worker.definition import task

__all__ = ["TaskContext", "TaskStopped", "task"]
