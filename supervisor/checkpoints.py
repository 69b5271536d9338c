"""The newest `state` of each open task: kept on the node, given back to the task's next attempt."""

from pathlib import Path
from typing import Any

from chong.supervisor.files import is_about_file, make_private, read_json, set_aside, write_text
from chong.worker.result import encode_state


class Unreadable(Exception):  # noqa: N818 - a finding
    """A state that cannot be read, and where its file is now."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(f"{path}: {error}")
        self.path = path


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
        """The state that the last attempt reported; None when there is none.

        Unreadable when there is one that cannot be read: it is set aside, and the next call finds none. OSError when
        no file can be read at the moment.
        """
        if task_id not in self._kept:
            return None
        try:
            state = read_json(self._file(task_id))
            encode_state(state)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and not is_about_file(error):
                raise
            self._kept.discard(task_id)
            raise Unreadable(set_aside(self._file(task_id)), error) from error
        return state

    def drop(self, task_id: str) -> None:
        if task_id in self._kept:
            self._kept.discard(task_id)
            self._file(task_id).unlink(missing_ok=True)

    def _file(self, task_id: str) -> Path:
        return self._directory / f"{task_id}.json"
