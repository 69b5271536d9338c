"""The submissions that this node has accepted, one file each, until their final state is stored.

Beside it lies an empty file as soon as the store has had the task: one that the store then knows no more was ended and
removed by others, or the store went back. Only what it never had may be handed to it anew.

Parameters live here and nowhere else: never in the shared store.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from chong.store.errors import ConfigurationError
from chong.supervisor.files import is_about_file, make_private, read_json, set_aside, write_json
from chong.supervisor.submission import Submission, from_json, to_json


class Accepted:
    """A directory of submission files, named by task id."""

    def __init__(self, directory: Path) -> None:
        make_private(directory)
        self._directory = directory

    def keep(self, submission: Submission) -> None:
        write_json(self._file(submission.id), to_json(submission))

    def mark_stored(self, task_id: str) -> None:
        """The store has had it."""
        self._mark(task_id).touch(mode=0o600)

    def was_stored(self, task_id: str) -> bool:
        return self._mark(task_id).exists()

    def drop(self, task_id: str) -> None:
        self._file(task_id).unlink(missing_ok=True)
        self._mark(task_id).unlink(missing_ok=True)

    def params(self, task_id: str) -> dict[str, Any]:
        """The parameters of an accepted task; OSError, ValueError or ConfigurationError when they cannot be read."""
        return dict(from_json(read_json(self._file(task_id))).params)

    def replay(self) -> tuple[list[Submission], list[Path]]:
        """All accepted submissions, oldest first, and the files that could not be read.

        An unreadable file is set aside under another name, never removed; where it cannot be renamed, it stays. OSError
        when no file can be read at the moment: then nothing is known of any.
        """
        found: list[Submission] = []
        spoilt: list[Path] = []
        for draft in self._directory.glob(".*.new"):
            with suppress(OSError):  # what stays is not read either
                draft.unlink()  # of a submission that was never acknowledged
        for mark in self._directory.glob("*.stored"):
            if not self._file(mark.stem).exists():
                mark.unlink(missing_ok=True)
        for path in sorted(self._directory.glob("*.json")):
            try:
                found.append(from_json(read_json(path)))
            except OSError as error:
                if not is_about_file(error):
                    raise
                spoilt.append(set_aside(path))
            except (ValueError, ConfigurationError):
                spoilt.append(set_aside(path))
        return found, spoilt

    def _mark(self, task_id: str) -> Path:
        return self._directory / f"{task_id}.stored"

    def _file(self, task_id: str) -> Path:
        return self._directory / f"{task_id}.json"
