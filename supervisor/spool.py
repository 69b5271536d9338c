"""What a node keeps of its open tasks, and of nobody else's: parameters, the newest `state`, files of their runs.

Never in the shared store. One place, so that whatever ends a task leaves nothing of it behind.
"""

import shutil
from pathlib import Path
from typing import Any

from chong.supervisor.accepted import Accepted
from chong.supervisor.checkpoints import Checkpoints
from chong.supervisor.paths import Paths
from chong.supervisor.submission import Submission


class Spool:
    """By task id; `run` is one attempt's identity."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._accepted = Accepted(paths.accepted)
        self._checkpoints = Checkpoints(paths.checkpoints)

    def replay(self) -> tuple[list[Submission], list[Path]]:
        """All accepted submissions, oldest first, and the files that could not be read and were set aside."""
        return self._accepted.replay()

    def keep(self, submission: Submission) -> None:
        """From here on the submission survives the supervisor."""
        self._accepted.keep(submission)

    def mark_stored(self, task_id: str) -> None:
        """The store has had the task: should it not know it any more one day, it is not to be run."""
        self._accepted.mark_stored(task_id)

    def was_stored(self, task_id: str) -> bool:
        return self._accepted.was_stored(task_id)

    def params(self, task_id: str) -> dict[str, Any]:
        """The parameters of an accepted task; OSError, ValueError or ConfigurationError when they cannot be read."""
        return self._accepted.params(task_id)

    def keep_state(self, task_id: str, text: str) -> None:
        """The `state` of a checkpoint, as JSON text."""
        self._checkpoints.keep(task_id, text)

    def last_state(self, task_id: str) -> Any:
        """What the last attempt kept; None when it kept nothing. Unreadable and OSError as Checkpoints has them."""
        return self._checkpoints.last(task_id)

    def drop(self, task_id: str, attempt: int) -> None:
        """The task is over."""
        self._accepted.drop(task_id)
        self._checkpoints.drop(task_id)
        self.drop_run(f"{task_id}.{attempt}")

    def drop_run(self, run: str) -> None:
        """Remove what a run has left in its own directory; most runs have none."""
        directory = self._paths.run_dir(run)
        if directory.exists():
            shutil.rmtree(directory, ignore_errors=True)
