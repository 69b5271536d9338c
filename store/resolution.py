"""An operator's verdict on a lost task: a note, as nothing ever changes the state of what has ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from chong.store.model import Note
from chong.store.states import Status

KIND = "resolved"
VERDICTS = (Status.SUCCEEDED, Status.FAILED)
"""What may be found out of a run of which nobody could know how it ended."""
_BETWEEN = ": "


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """`verdict`: what its run came to, as somebody has found out; `at` by that somebody's clock."""

    verdict: str
    by: str
    at: datetime
    reason: str | None = None


def note_of(resolution: Resolution, task_id: str, event_id: str) -> Note:
    detail = resolution.verdict if resolution.reason is None else f"{resolution.verdict}{_BETWEEN}{resolution.reason}"
    return Note(task_id=task_id, kind=KIND, at=resolution.at, actor=resolution.by, event_id=event_id, detail=detail)


def resolution_of(note: Note) -> Resolution:
    verdict, _, reason = (note.detail or "").partition(_BETWEEN)
    return Resolution(verdict=verdict, by=note.actor, at=note.at, reason=reason or None)


def resolutions_of(notes: Iterable[Note]) -> dict[str, Resolution]:
    """By task."""
    return {note.task_id: resolution_of(note) for note in notes}
