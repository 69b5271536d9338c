"""Tasks, leases and commands over any SQL."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from chong.store.codec import as_json_text, status_from_row
from chong.store.errors import Refused, UnreadableRow
from chong.store.ids import SHOWN, is_id, is_part_of_id
from chong.store.model import (
    BucketLoad,
    Command,
    Lease,
    Note,
    TaskRecord,
    TaskSnapshot,
    Transition,
)
from chong.store.query import TaskQuery
from chong.store.resolution import KIND, Resolution, resolutions_of
from chong.store.states import Status
from chong.store.table_calls import Database, T, TableCalls
from chong.store.texts import check_texts

MOST_SKIPPED = 1000
"""So many ended tasks may stand in the way of a call that looks for what can be removed."""


class TaskTables(TableCalls):
    PRUNED: ClassVar[tuple[str, ...]] = ("transitions", "notes", "commands")
    """What is removed before its task."""

    # --- tasks -------------------------------------------------------------------------------------------

    def get(self, task_id: str) -> TaskSnapshot | None:
        rows = self._rows_of_task("get", task_id)
        return self._codec.snapshot_from_row(rows[0]) if rows else None

    def find(self, part: str, *, limit: int = 10) -> list[TaskSnapshot]:
        rows = self._found(part, limit) if is_part_of_id(part) else []
        return [self._codec.snapshot_from_row(row) for row in rows]

    @abstractmethod
    def _found(self, part: str, limit: int) -> list[Any]:
        """The rows of tasks whose id begins or ends with `part`, newest first."""

    def query(self, query: TaskQuery, *, whole: bool = False) -> list[TaskSnapshot]:
        check_texts((*(query.names or ()), *query.tags))
        found: list[TaskSnapshot] = []
        while True:
            wanted = query.limit
            text, values = self._render(query)
            with self._reading() as db:
                rows = self._fetched(db, text, values)
            found += (read := self._readable(self._codec.snapshot_from_row, rows, whole=whole))
            if len(read) == wanted or len(rows) < wanted:
                return found
            query = replace(query, before=str(rows[-1]["id"]), limit=wanted - len(read))

    def history(self, task_id: str, *, whole: bool = False) -> list[Transition]:
        return self._readable(self._codec.transition_from_row, self._rows_of_task("history", task_id), whole=whole)

    def append(self, notes: Sequence[Note]) -> None:
        # As all that locks several tasks: ids ascending.
        ordered = sorted((note for note in notes if is_id(note.task_id)), key=lambda note: note.task_id)
        rows, refused = self._codec.notes_to_columns(ordered)
        refused = self._append(rows) or refused
        # Last: one task's bad remark must not cost the others theirs.
        if refused is not None:
            raise Refused(refused)

    def _append(self, rows: Sequence[dict[str, Any]]) -> str | None:
        """Write what can be written; gives what is wrong with the last one that cannot."""
        if not rows:
            return None
        try:
            with self._writing() as db:
                now = {"now": self._now()}
                db.executemany(self._queries["append"], [row | now for row in rows])
        except Refused as error:
            if len(rows) == 1:
                return f"task {rows[0]['task_id']}: a note {rows[0]['kind']!r} cannot be stored: {error}"
            half = len(rows) // 2
            first = self._append(rows[:half])
            return self._append(rows[half:]) or first
        return None

    def notes(self, task_id: str) -> list[Note]:
        return self._readable(self._codec.note_from_row, self._rows_of_task("notes", task_id))

    def resolutions(self, ids: Iterable[str]) -> dict[str, Resolution]:
        rows = self._rows("resolutions", ids=self._ids(ids), kind=KIND)
        return resolutions_of(self._readable(self._codec.note_from_row, rows))

    def stats(self, buckets: frozenset[int] | None = None) -> dict[Status, int]:
        if buckets is None:
            rows = self._rows("stats")
        else:
            rows = self._rows("stats_buckets", buckets=self._array(sorted(buckets)))
        counts = self._readable(lambda row: (status_from_row(row), row["tasks"]), rows)
        return dict.fromkeys(Status, 0) | dict(counts)

    def bucket_loads(self) -> list[BucketLoad]:
        return self._readable(self._codec.bucket_load_from_row, self._rows_of_now("bucket_loads"))

    def prunable(self, older_than: timedelta, *, limit: int = 100) -> list[TaskRecord]:
        values = {"now": self._now(), "age": self._age(older_than), "limit": limit}
        skipped = 0
        while True:
            with self._reading() as db:
                ids = [row["id"] for row in self._fetched(db, self._queries["prunable"], values | {"skipped": skipped})]
                records, unread = self._records(db, ids)
            # What cannot be read stays, and is found first again: what can be removed may lie behind it. Others may
            # have removed the rest of the page meanwhile, which moves what is behind it to the front.
            skipped += unread
            if records or len(ids) < limit or skipped >= MOST_SKIPPED:
                return [records[task_id] for task_id in ids if task_id in records]

    def count_prunable(self, older_than: timedelta) -> int:
        return int(self._rows("count_prunable", now=self._now(), age=self._age(older_than))[0]["tasks"])

    def prune(self, records: Sequence[TaskRecord]) -> set[str]:
        ended = {record.task.id: record for record in records if record.task.status.is_final}
        with self._writing() as db:
            db.execute(self._queries["prune_lock_trail"], {})
            # Held first: what is added to a task after it was compared would be removed unseen.
            db.execute(self._queries["prune_lock"], {"ids": self._array(ended)})
            stored, _ = self._records(db, list(ended))
            same = [task_id for task_id, record in stored.items() if record == ended[task_id]]
            for part in (*self.PRUNED, "tasks"):
                db.execute(self._queries[f"prune_{part}"], {"ids": self._array(same)})
        return set(same)

    def prune_traces(self, older_than: timedelta, *, limit: int = 1000) -> int:
        with self._writing() as db:
            values = {"now": self._now(), "age": self._age(older_than), "limit": limit}
            gone = [db.execute(self._queries[f"prune_{kind}"], values) for kind in ("firings", "terms", "alerts")]
        return sum(cursor.rowcount for cursor in gone)

    def _records(self, db: Database, ids: Sequence[str]) -> tuple[dict[str, TaskRecord], int]:
        """All that is kept of each of these tasks that is there; and how many are left out, as they cannot be read."""
        values = {"ids": self._array(ids)}
        spoilt = set()

        def rows(query: str) -> list[Any]:
            return self._fetched(db, self._queries[query], values)

        def or_spoilt(read: Callable[[Any], T]) -> Callable[[Any], T]:
            """As `read`; a task of which a part cannot be read is left out as a whole."""

            def tried(row: Any) -> T:
                try:
                    return read(row)
                except UnreadableRow:
                    spoilt.add(row["task_id"])
                    raise

            return tried

        stored = rows("get_many")
        tasks = self._readable(self._codec.snapshot_from_row, stored)
        steps = self._readable(or_spoilt(self._codec.transition_from_row), rows("history_many"))
        notes = self._readable(or_spoilt(self._codec.note_from_row), rows("notes_many"))
        # One that cannot be read has been refused, and goes with its task as any other.
        commands, faults = self._codec.commands_from_rows(rows("commands_many"))
        parts = (
            _by_task(steps),
            _by_task(notes),
            _by_task(commands),
            _grouped((row["task_id"], as_json_text(row)) for row, _ in faults),
        )
        kept = (task for task in tasks if task.id not in spoilt)
        records = {task.id: TaskRecord(task, *(tuple(part[task.id]) for part in parts)) for task in kept}
        return records, len(stored) - len(records)

    # --- leases ------------------------------------------------------------------------------------------

    def leases(self, ids: Iterable[str] | None = None, *, whole: bool = False) -> list[Lease]:
        rows = self._rows_of_now("leases") if ids is None else self._rows_of_now("leases_ids", ids=self._ids(ids))
        return self._readable(self._codec.lease_from_row, rows, whole=whole)

    def renew(self, term: str, ids: Iterable[str], ttl: timedelta) -> set[str]:
        asked = list(ids)
        known = list(filter(is_id, asked))
        return self._renew(term, known, ttl).union(set(asked).difference(known))

    @abstractmethod
    def _renew(self, term: str, ids: Sequence[str], ttl: timedelta) -> set[str]:
        """As `renew`, for what can be ids."""

    # --- commands ----------------------------------------------------------------------------------------

    def submit_command(self, command: Command) -> None:
        if not is_id(command.task_id) or not self._submit(command):
            raise Refused(f"no task {command.task_id[:SHOWN]!r}: nothing to {command.action}")

    @abstractmethod
    def _submit(self, command: Command) -> bool:
        """Store a request, or find it in place; False when there is no such task."""

    def complete_command(self, command_id: str, outcome: str, detail: str | None = None) -> None:
        self._write("complete_command", id=command_id, outcome=outcome, detail=detail)

    def release_command(self, command_id: str, term: str) -> None:
        self._write("release_command", id=command_id, term=term)

    def commands(self, task_id: str) -> list[Command]:
        return self._codec.commands_from_rows(self._rows_of_task("commands", task_id))[0]

    # --- queries -----------------------------------------------------------------------------------------

    def _render(self, query: TaskQuery) -> tuple[str, dict[str, Any]]:
        """The SQL of a query and its values: one named condition for each that is asked for."""
        values = {name: self._condition(value) for name, value in _asked(query).items()}
        return self._selected("query", values), values | {"limit": query.limit}

    def _selected(self, query: str, conditions: Iterable[str]) -> str:
        """The text of a query that leaves its conditions open."""
        texts = [self._queries[f"query_{name}"] for name in conditions] or [self._queries["query_any"]]
        return self._queries[query].replace("{conditions}", " AND ".join(texts))

    def _condition(self, value: Any) -> Any:
        if isinstance(value, frozenset):
            return self._array(sorted(value))
        return self._codec.moment_in(value) if isinstance(value, datetime) else value


def _by_task(kept: Iterable[Any]) -> defaultdict[str, list[Any]]:
    return _grouped((each.task_id, each) for each in kept)


def _grouped(pairs: Iterable[tuple[str, Any]]) -> defaultdict[str, list[Any]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for key, each in pairs:
        groups[key].append(each)
    return groups


def _asked(query: TaskQuery) -> dict[str, Any]:
    asked = {field.name: getattr(query, field.name) for field in fields(query) if field.name != "limit"}
    asked["tags"] = asked["tags"] or None
    if query.ids is not None:
        asked["ids"] = frozenset(filter(is_id, query.ids))
    return {name: value for name, value in asked.items() if value is not None}
