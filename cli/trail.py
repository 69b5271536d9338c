"""The audit trail of one task: as rows of the JSON form, and merged with notes for a reader."""

from collections.abc import Sequence
from typing import Any

from chong.cli.attempts import Attempt
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
_ATTEMPT = Column("ATTEMPT", floor=8, spare=1)


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
            "ended": step.ended,
        }
        for step in transitions
    ]


def columns_of(attempts: Sequence[Attempt]) -> tuple[Column, ...]:
    """One more where an attempt has ended."""
    return COLUMNS if _ends(attempts) == {} else (*COLUMNS, _ATTEMPT)


def _ends(attempts: Sequence[Attempt]) -> dict[int, str]:
    """By the version of the change."""
    told = {attempt.version: (attempt.number, ", ".join(attempt.facts())) for attempt in attempts}
    return {version: f"{number}: {facts}" for version, (number, facts) in told.items() if version is not None}


def trail_rows(
    transitions: Sequence[Transition], notes: Sequence[Note], attempts: Sequence[Attempt] = ()
) -> list[list[Cell | str]]:
    """By the time of the event; transitions keep their order by version whatever clocks said."""
    ends = _ends(attempts)
    merged: list[Transition | Note] = list(transitions)
    for note in sorted(notes, key=lambda note: note.at):
        later = (i for i, entry in enumerate(merged) if entry.at > note.at)
        merged.insert(next(later, len(merged)), note)
    rows = [_transition(entry, ends) if isinstance(entry, Transition) else _note(entry) for entry in merged]
    return [row[: len(columns_of(attempts))] for row in rows]


def _transition(step: Transition, ends: dict[int, str]) -> list[Cell | str]:
    source = step.source.value if step.source else ""
    target, at, end = status_cell(step.target), stamp(step.at) or "", ends.get(step.version, "")
    return [str(step.version), at, source, target, step.actor, step.reason or "", end]


def _note(note: Note) -> list[Cell | str]:
    return [
        "",
        stamp(note.at) or "",
        "",
        Cell("note", "dim"),
        note.actor,
        f"{note.kind} {note.detail or ''}".strip(),
        "",
    ]
