"""The newest `state` of each open task: kept on the node, given back to the task's next attempt."""

import json
from pathlib import Path
from typing import Any

from chong.supervisor.files import make_private, write_text


class Checkpoints:
    """A directory with one JSON file per task that reported a state."""

    def __init__(self, directory: Path) -> None:
        make_private(directory)
        self._directory = directory
        self._kept = {path.stem for path in directory.glob("*.json")}

    def keep(self, task_id: str, text: str) -> None:
        write_text(self._file(task_id), text)
        self._kept.add(task_id)

    def last(self, task_id: str) -> Any:
        """The state that the last attempt reported; None when there is none."""
        if task_id not in self._kept:
            return None
        return json.loads(self._file(task_id).read_text(encoding="utf-8"))

    def drop(self, task_id: str) -> None:
        if task_id in self._kept:
            self._kept.discard(task_id)
            self._file(task_id).unlink(missing_ok=True)

    def _file(self, task_id: str) -> Path:
        return self._directory / f"{task_id}.json"
