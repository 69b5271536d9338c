"""Writing a batch of saves: each one is judged against the rows as they stand, then written whole or not at all."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from chong.store.codec import Row
from chong.store.deployment import sole_row
from chong.store.errors import ChongError, ConcurrencyConflict
from chong.store.model import Completion, Save
from chong.store.saving import Verdict, check_buckets, is_in_place, unstorable, verdicts_of
from chong.store.table_calls import Dialect

# What a value that cannot be stored gives: too deep, too large, not JSON, not text, a time without a zone.
_UNSTORABLE = (
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)


class SaveBatch:
    """The saves of one transaction that already holds the write lock, so that nothing changes under the verdicts."""

    def __init__(self, db: sqlite3.Connection, dialect: Dialect, now: int, num_buckets: int | None) -> None:
        self._db = db
        self._dialect = dialect
        self._queries = dialect.queries
        self._codec = dialect.codec
        self._array = dialect.array
        self._now = now
        self._num_buckets = num_buckets
        self._recorded = (
            None if num_buckets is None else sole_row(self._run("deployment", {}).fetchone())["num_buckets"]
        )

    def write(self, saves: Sequence[Save]) -> list[Verdict]:
        return verdicts_of(saves, self._verdicts)

    def _verdicts(self, saves: Sequence[Save]) -> dict[str, Verdict]:
        ids = self._array(save.snapshot.id for save in saves)
        stored = {row["id"]: row for row in self._run("save_stored", {"ids": ids})}
        return {save.snapshot.id: self._verdict(save, stored.get(save.snapshot.id)) for save in saves}

    def _verdict(self, save: Save, row: Row | None) -> Verdict:
        self._db.execute("SAVEPOINT save")
        try:
            self._write_one(save, row)
        except ChongError as error:
            self._undo()
            return error
        except _UNSTORABLE as error:
            self._undo()
            return unstorable(save, error)
        self._db.execute("RELEASE save")
        return None

    def _undo(self) -> None:
        self._db.execute("ROLLBACK TO save")
        self._db.execute("RELEASE save")

    def _write_one(self, save: Save, row: Row | None) -> None:
        if is_in_place(self._db, self._dialect, save, row):
            return
        columns = self._codec.snapshot_to_columns(save.snapshot)
        if row is None:
            check_buckets(save, self._recorded, self._num_buckets)
            self._insert(save, columns)
        else:
            self._update(save, columns, row)
        self._write_trail(save)
        self._write_lease(save, row)
        self._complete(save.completes)

    def _insert(self, save: Save, columns: dict[str, Any]) -> None:
        self._run("save_insert", columns)
        if save.snapshot.tags:
            self._run_many("save_tag", [(tag, save.snapshot.id) for tag in save.snapshot.tags])

    def _update(self, save: Save, columns: dict[str, Any], row: Row) -> None:
        columns["expect_version"] = save.expect_version
        columns.update(_last_signs(save, row))
        if self._run("save_update", columns).rowcount == 0:
            raise ConcurrencyConflict(save.snapshot.id, "is not as it stood")

    def _write_trail(self, save: Save) -> None:
        rows = [self._codec.transition_to_columns(transition, self._now) for transition in save.transitions]
        self._run_many("save_transition", rows)

    def _write_lease(self, save: Save, row: Row | None) -> None:
        task = {"id": save.snapshot.id}
        if not save.snapshot.status.is_run:
            if row is not None and row["has_lease"]:
                self._run("save_end_lease", task)
        elif save.lease is not None:
            grant = {"term": save.lease.term, "ttl": self._codec.span_in(save.lease.ttl), "now": self._now}
            self._run("save_lease", task | grant)

    def _complete(self, completes: Sequence[Completion]) -> None:
        for done in completes:
            end = {"id": done.command_id, "outcome": done.outcome, "detail": done.detail, "now": self._now}
            self._run("complete_command", end)

    def _run(self, query: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        return self._db.execute(self._queries[query], values)

    def _run_many(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._db.executemany(self._queries[query], rows)


def _last_signs(save: Save, row: Row) -> dict[str, Any]:
    """Heartbeat, progress and usage for the task's own row: what the ended lease knew, else what stands there."""
    if save.lease is not None:
        return {"last_heartbeat_at": None, "progress": None, "usage": None}
    is_ending = row["has_lease"] and not save.snapshot.status.is_run
    return {
        "last_heartbeat_at": row["lease_heartbeat_at" if is_ending else "last_heartbeat_at"],
        "progress": row["lease_progress" if is_ending else "progress"],
        "usage": row["lease_usage" if is_ending else "usage"],
    }
