"""The submissions that this node has accepted, one file each, until their final state is stored.

Parameters live here and nowhere else: never in the shared store.
"""

from pathlib import Path
from typing import Any

from chong.store.errors import ConfigurationError
from chong.supervisor.files import SPOIL_SUFFIX, make_private, read_json, write_json
from chong.supervisor.submission import Submission, from_json, to_json


class Accepted:
    """A directory of submission files, named by task id."""

    def __init__(self, directory: Path) -> None:
        make_private(directory)
        self._directory = directory

    def keep(self, submission: Submission) -> None:
        write_json(self._file(submission.id), to_json(submission))

    def drop(self, task_id: str) -> None:
        self._file(task_id).unlink(missing_ok=True)

    def params(self, task_id: str) -> dict[str, Any]:
        """The parameters of an accepted task; FileNotFoundError when the file has gone."""
        return dict(from_json(read_json(self._file(task_id))).params)

    def replay(self) -> tuple[list[Submission], list[Path]]:
        """All accepted submissions, oldest first, and the files that could not be read.

        An unreadable file is set aside under another name, never removed.
        """
        found: list[Submission] = []
        spoilt: list[Path] = []
        for draft in self._directory.glob(".*.new"):
            draft.unlink()  # of a submission that was never acknowledged
        for path in sorted(self._directory.glob("*.json")):
            try:
                found.append(from_json(read_json(path)))
            except (ValueError, ConfigurationError):
                spoilt.append(path.rename(path.with_name(path.name + SPOIL_SUFFIX)))
        return found, spoilt

    def _file(self, task_id: str) -> Path:
        return self._directory / f"{task_id}.json"
