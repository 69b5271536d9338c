"""The audit trail of one task: as rows of the JSON form, and merged with notes for a reader."""

from collections.abc import Sequence
from typing import Any

from chong.cli.render import Cell, Column
from chong.cli.taskrow import status_cell
from chong.cli.times import stamp
from chong.store.model import Note, Transition

COLUMNS = (
    Column("VERSION", right=True),
    Column("AT"),
    Column("FROM"),
    Column("TO"),
    Column("ACTOR", floor=8),
    Column("REASON", floor=8),
)


def trail_json(transitions: Sequence[Transition]) -> list[dict[str, Any]]:
    return [
        {
            "version": step.version,
            "from": step.source,
            "to": step.target,
            "at": step.at,
            "stored_at": step.stored_at,
            "actor": step.actor,
            "reason": step.reason,
        }
        for step in transitions
    ]


def trail_rows(transitions: Sequence[Transition], notes: Sequence[Note]) -> list[list[Cell | str]]:
    """By the time of the event; transitions keep their order by version whatever clocks said."""
    merged: list[Transition | Note] = list(transitions)
    for note in sorted(notes, key=lambda note: note.at):
        later = (i for i, entry in enumerate(merged) if entry.at > note.at)
        merged.insert(next(later, len(merged)), note)
    return [_transition(entry) if isinstance(entry, Transition) else _note(entry) for entry in merged]


def _transition(step: Transition) -> list[Cell | str]:
    source = step.source.value if step.source else ""
    return [str(step.version), stamp(step.at) or "", source, status_cell(step.target), step.actor, step.reason or ""]


def _note(note: Note) -> list[Cell | str]:
    return ["", stamp(note.at) or "", "", Cell("note", "dim"), note.actor, f"{note.kind} {note.detail or ''}".strip()]
