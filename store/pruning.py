"""Removing what is old: tasks that are over, with all that is kept of them, and the traces of schedules and terms."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from chong.store import codec
from chong.store.model import TaskRecord

Queries = Mapping[str, str]

_PARTS = ("tags", "transitions", "notes", "commands", "tasks")
_TRACES = ("firings", "terms")


def read_record(db: sqlite3.Connection, queries: Queries, task_id: str) -> TaskRecord | None:
    """All that is kept of a task; None when it has gone."""

    def rows(query: str) -> list[sqlite3.Row]:
        return db.execute(queries[query], {"id": task_id}).fetchall()

    found = rows("get")
    if not found:
        return None
    return TaskRecord(
        codec.snapshot_from_row(found[0]),
        tuple(codec.transition_from_row(row) for row in rows("history")),
        tuple(codec.note_from_row(row) for row in rows("notes")),
        tuple(codec.command_from_row(row) for row in rows("commands")),
    )


def remove_records(db: sqlite3.Connection, queries: Queries, records: Sequence[TaskRecord]) -> int:
    """In a transaction: remove the final tasks of which nothing more or else is kept than the records say."""
    ids = [r.task.id for r in records if r.task.status.is_final and read_record(db, queries, r.task.id) == r]
    _remove(db, queries, _PARTS, {"ids": codec.to_json(ids)})
    return len(ids)


def remove_traces(db: sqlite3.Connection, queries: Queries, before: int, limit: int) -> int:
    """In a transaction: remove old firings, and old terms to which nothing refers; returns how many."""
    return _remove(db, queries, _TRACES, {"before": before, "limit": limit})


def _remove(db: sqlite3.Connection, queries: Queries, parts: Sequence[str], values: Mapping[str, Any]) -> int:
    return sum(db.execute(queries[f"prune_{part}"], values).rowcount for part in parts)
