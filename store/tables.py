"""The contract in terms of SQLite's tables; which connection a call gets is the subclass's affair."""

import contextlib
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from chong.store import codec
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import (
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Deployment,
    Lease,
    NodeRecord,
    Note,
    Save,
    TaskRecord,
    TaskSnapshot,
    TermRecord,
    Transition,
)
from chong.store.pruning import read_record, remove_records, remove_traces
from chong.store.queries import load_queries
from chong.store.query import TaskQuery
from chong.store.saving import SaveBatch
from chong.store.session import Session
from chong.store.states import Status

Clock = Callable[[], datetime]

_QUERIES = load_queries("sqlite")
_AFTER_ALL = "\U0010ffff"


def host_clock() -> datetime:
    return datetime.now(UTC)


class TableStore(TaskStore):
    """Every method of the contract, on the connection of `_session()`."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock or host_clock

    @abstractmethod
    def _session(self) -> Session:
        """The connection that this call may use."""

    # --- tasks -------------------------------------------------------------------------------------------

    def save_many(self, saves: Sequence[Save]) -> list[Exception | None]:
        if not saves:
            return []
        with self._writing() as db:
            return SaveBatch(db, _QUERIES, self._now()).write(saves)

    def get(self, task_id: str) -> TaskSnapshot | None:
        rows = self._rows("get", id=task_id)
        return codec.snapshot_from_row(rows[0]) if rows else None

    def find(self, part: str, *, limit: int = 10) -> list[TaskSnapshot]:
        tail = part[::-1]
        rows = self._rows(
            "find", part=part, part_end=part + _AFTER_ALL, tail=tail, tail_end=tail + _AFTER_ALL, limit=limit
        )
        return [codec.snapshot_from_row(row) for row in rows]

    def query(self, query: TaskQuery) -> list[TaskSnapshot]:
        text, values = render_query(query)
        with self._reading() as db:
            return [codec.snapshot_from_row(row) for row in db.execute(text, values).fetchall()]

    def history(self, task_id: str) -> list[Transition]:
        return [codec.transition_from_row(row) for row in self._rows("history", id=task_id)]

    def append(self, notes: Sequence[Note]) -> None:
        if not notes:
            return
        with self._writing() as db:
            now = self._now()
            db.executemany(_QUERIES["append"], [codec.note_to_columns(note, now) for note in notes])

    def notes(self, task_id: str) -> list[Note]:
        return [codec.note_from_row(row) for row in self._rows("notes", id=task_id)]

    def stats(self, buckets: frozenset[int] | None = None) -> dict[Status, int]:
        if buckets is None:
            rows = self._rows("stats")
        else:
            rows = self._rows("stats_buckets", buckets=codec.to_json(sorted(buckets)))
        return dict.fromkeys(Status, 0) | {Status(status): count for status, count in rows}

    def bucket_loads(self) -> list[BucketLoad]:
        return [codec.bucket_load_from_row(row) for row in self._rows("bucket_loads", now=self._now())]

    def prunable(self, older_than: timedelta, *, limit: int = 100) -> list[TaskRecord]:
        values = {"before": self._before(older_than), "limit": limit}
        with self._reading() as db:
            ended = db.execute(_QUERIES["prunable"], values).fetchall()
            records = [read_record(db, _QUERIES, row["id"]) for row in ended]
        return [record for record in records if record is not None]

    def count_prunable(self, older_than: timedelta) -> int:
        return int(self._rows("count_prunable", before=self._before(older_than))[0][0])

    def prune(self, records: Sequence[TaskRecord]) -> int:
        with self._writing() as db:
            return remove_records(db, _QUERIES, records)

    def prune_traces(self, older_than: timedelta, *, limit: int = 1000) -> int:
        with self._writing() as db:
            return remove_traces(db, _QUERIES, self._before(older_than), limit)

    # --- leases ------------------------------------------------------------------------------------------

    def renew(self, term: str, ids: Iterable[str], ttl: timedelta) -> set[str]:
        listed = codec.to_json(list(ids))
        values = {"term": term, "ids": listed, "ttl": codec.span_to_micros(ttl)}
        with self._writing(is_urgent=True) as db:
            values["now"] = self._now()
            db.execute(_QUERIES["renew"], values)
            db.execute(_QUERIES["renew_node"], values)
            return {row["value"] for row in db.execute(_QUERIES["renew_missing"], values).fetchall()}

    def touch(self, term: str, beats: Sequence[Beat]) -> None:
        rows, refused = codec.beats_to_columns(beats, term)
        if rows:
            with self._writing() as db:
                db.executemany(_QUERIES["touch"], rows)
        # Last: one task's bad number must not hide the others' heartbeats.
        if refused:
            raise Refused(refused)

    def leases(self, ids: Iterable[str] | None = None) -> list[Lease]:
        now = self._now()
        if ids is None:
            rows = self._rows("leases", now=now)
        else:
            rows = self._rows("leases_ids", now=now, ids=codec.to_json(list(ids)))
        return [codec.lease_from_row(row) for row in rows]

    def adopt(
        self, old_term: str, new_term: str, ids: Iterable[str], ttl: timedelta, event_id: str
    ) -> list[TaskSnapshot]:
        values = {"old_term": old_term, "new_term": new_term, "event_id": event_id}
        values["ids"] = codec.to_json(list(ids))
        with self._writing() as db:
            now = self._now()
            grant = {"new_term": new_term, "now": now, "ttl": codec.span_to_micros(ttl)}
            for row in db.execute(_QUERIES["adopt"], values).fetchall():
                task = {"id": row["task_id"]}
                db.execute(_QUERIES["adopt_lease"], task | grant)
                db.execute(_QUERIES["adopt_task"], task)
                db.execute(_QUERIES["append"], _adopted(row["task_id"], old_term, new_term, event_id, now))
            db.execute(_QUERIES["adopt_commands"], values)
            return _done(db, "adopt_done", values)

    def expire(self, ids: Iterable[str], event_id: str, *, actor: str, reason: str | None = None) -> list[TaskSnapshot]:
        values = {"ids": codec.to_json(list(ids)), "event_id": event_id, "lost": Status.LOST}
        with self._writing() as db:
            now = self._now()
            for row in db.execute(_QUERIES["expire"], values | {"now": now}).fetchall():
                end = {"id": row["id"], "version": row["version"] + 1, "now": now, "lost": Status.LOST}
                step = (row["id"], end["version"], row["status"], Status.LOST, now, actor, event_id, reason, now)
                db.execute(_QUERIES["expire_task"], end)
                db.execute(_QUERIES["save_transition"], step)
                db.execute(_QUERIES["save_end_lease"], {"id": row["id"]})
            return _done(db, "expire_done", values)

    # --- commands ----------------------------------------------------------------------------------------

    def submit_command(self, command: Command) -> None:
        columns = codec.command_to_columns(command)
        with self._writing() as db:
            if db.execute(_QUERIES["submit_command_done"], columns).fetchone() is not None:
                return
            if db.execute(_QUERIES["submit_command"], columns).rowcount == 0:
                raise Refused(f"no task {command.task_id}: nothing to {command.action}")

    def claim_commands(self, node: str, term: str, *, lease: timedelta, limit: int = 100) -> list[Command]:
        # Polled all the time and mostly in vain: look first, without the write lock.
        if not self._rows("claim_commands", node=node, now=self._now(), limit=1):
            return []
        with self._writing() as db:
            now = self._now()
            open_ones = db.execute(_QUERIES["claim_commands"], {"node": node, "now": now, "limit": limit})
            ids = {"ids": codec.to_json([row["id"] for row in open_ones.fetchall()])}
            claim = {"term": term, "now": now, "ttl": codec.span_to_micros(lease)}
            db.execute(_QUERIES["claim_commands_lease"], ids | claim)
            rows = db.execute(_QUERIES["claim_commands_read"], ids).fetchall()
        return [codec.command_from_row(row) for row in rows]

    def complete_command(self, command_id: str, outcome: str, detail: str | None = None) -> None:
        self._write("complete_command", id=command_id, outcome=outcome, detail=detail, now=self._now())

    def release_command(self, command_id: str) -> None:
        self._write("release_command", id=command_id)

    def commands(self, task_id: str) -> list[Command]:
        return [codec.command_from_row(row) for row in self._rows("commands", id=task_id)]

    # --- schedules, nodes, deployment --------------------------------------------------------------------

    def claim_firing(self, name: str, key: str | None, planned: datetime, *, node: str, event_id: str) -> bool:
        firing = {"name": name, "key": key, "planned": codec.to_micros(planned), "node": node}
        with self._writing() as db:
            db.execute(_QUERIES["claim_firing"], firing | {"event_id": event_id, "now": self._now()})
            held = db.execute(_QUERIES["claim_firing_event"], firing).fetchone()
        return bool(held["event_id"] == event_id)

    def register_term(self, term: TermRecord, node: NodeRecord) -> None:
        with self._writing() as db:
            db.execute(_QUERIES["register_term"], codec.term_to_columns(term))
            db.execute(_QUERIES["register_term_node"], codec.node_to_columns(node, self._now()))

    def end_term(self, term: str) -> None:
        with self._writing() as db:
            db.execute(_QUERIES["end_term"], {"term": term, "now": self._now()})

    def terms(self, node: str) -> list[TermRecord]:
        return [codec.term_from_row(row) for row in self._rows("terms", node=node)]

    def nodes(self) -> list[NodeRecord]:
        return [codec.node_from_row(row) for row in self._rows("nodes", now=self._now())]

    def declare_buckets(self, node: str, buckets: frozenset[int] | None) -> None:
        with self._writing() as db:
            now = self._now()
            db.execute(_QUERIES["declare_buckets_none"], {"node": node})
            db.executemany(_QUERIES["declare_buckets"], [(bucket, node, now) for bucket in buckets or ()])

    def declarations(self) -> list[BucketDeclaration]:
        return [codec.declaration_from_row(row) for row in self._rows("declarations")]

    def publish_catalogue(self, node: str, entries: Sequence[CatalogueEntry]) -> None:
        rows = [codec.catalogue_entry_to_columns(entry) | {"node": node} for entry in entries]
        with self._writing() as db:
            db.execute(_QUERIES["publish_catalogue_none"], {"node": node})
            db.executemany(_QUERIES["publish_catalogue"], rows)

    def catalogue(self, node: str | None = None) -> list[CatalogueEntry]:
        return [codec.catalogue_entry_from_row(row) for row in self._rows("catalogue", node=node)]

    def deployment(self) -> Deployment:
        return Deployment(*self._rows("deployment")[0])

    def record_num_buckets(self, num_buckets: int) -> Deployment:
        self._write("record_num_buckets", num_buckets=num_buckets)
        return self.deployment()

    # --- calls -------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return codec.to_micros(self._clock())

    def _before(self, age: timedelta) -> int:
        return max(0, self._now() - codec.span_to_micros(age))

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._session().reading()

    def _writing(self, *, is_urgent: bool = False) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """A transaction; an urgent one is not made to wait for upkeep."""
        del is_urgent
        return self._session().writing()

    def _rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        with self._reading() as db:
            return db.execute(_QUERIES[query], values).fetchall()

    def _write(self, query: str, **values: Any) -> None:
        with self._writing() as db:
            db.execute(_QUERIES[query], values)


def render_query(query: TaskQuery) -> tuple[str, dict[str, Any]]:
    """The SQL of a query and its values: one named condition for each that is asked for."""
    values = {name: _value(value) for name, value in _asked(query).items()}
    conditions = [_QUERIES[f"query_{name}"] for name in values] or [_QUERIES["query_any"]]
    text = _QUERIES["query"].replace("{conditions}", " AND ".join(conditions))
    return text, values | {"limit": query.limit}


def _asked(query: TaskQuery) -> dict[str, Any]:
    asked = {field.name: getattr(query, field.name) for field in fields(query) if field.name != "limit"}
    asked["tags"] = asked["tags"] or None
    return {name: value for name, value in asked.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, frozenset):
        return codec.to_json(sorted(value))
    return codec.to_micros(value) if isinstance(value, datetime) else value


def _adopted(task_id: str, old_term: str, new_term: str, event_id: str, now: int) -> dict[str, Any]:
    """The note of an adoption, by which a repeated call knows its own work."""
    return {
        "task_id": task_id,
        "kind": "adopted",
        "at": now,
        "actor": new_term,
        "event_id": event_id,
        "detail": f"from {old_term}",
        "stored_at": now,
    }


def _done(db: sqlite3.Connection, query: str, values: dict[str, Any]) -> list[TaskSnapshot]:
    """The tasks, as they stand now, that an event has written, in this call or in an earlier one."""
    ids = [row["task_id"] for row in db.execute(_QUERIES[query], values).fetchall()]
    rows = db.execute(_QUERIES["get_many"], {"ids": codec.to_json(ids)}).fetchall()
    return [codec.snapshot_from_row(row) for row in rows]
