"""The part of the contract that is the same over any SQL: a named query, its values, its rows.

What depends on how a database locks, or on how many round trips it takes, is the subclass's: SQLite's in
`sqlite_tables`, PostgreSQL's in `postgres`.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

from chong.store.alert import Alert, AlertChanges, Finding
from chong.store.buckets import BucketPolicy
from chong.store.codec import Codec
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import (
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Deployment,
    HoldList,
    HoldScope,
    Lease,
    NodeRecord,
    Note,
    SharedHold,
    TaskRecord,
    TaskSnapshot,
    TermRecord,
    Transition,
)
from chong.store.query import TaskQuery
from chong.store.rebucketing import Progress, Rebucketing, check_standing
from chong.store.states import Status
from chong.store.survey import Survey

Clock = Callable[[], datetime]

FORGOTTEN_WORK = ("transitions", "notes", "commands", "tasks")
"""What is written of a forgotten node's waiting tasks, their own rows last: the others look at them."""
FORGOTTEN_NODE = ("buckets", "catalogue", "hold", "row")
"""What is removed of a node that is forgotten."""


# Nothing in a store is older; a greater age would lead out of what some databases can count.
_OLDEST = timedelta(days=20_000)


_MOVED_AT_ONCE = 1000


def host_clock() -> datetime:
    return datetime.now(UTC)


class Cursor(Protocol):
    """What a statement gave; the count of a statement that writes is known when its transaction has ended."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Database(Protocol):
    """A connection within a call; rows are read by column name."""

    def execute(self, query: str, values: Mapping[str, Any], /) -> Cursor: ...

    def executemany(self, query: str, rows: Iterable[Mapping[str, Any]], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database is spoken to: its queries by name, its values, and how a list is passed to it."""

    queries: Mapping[str, str]
    codec: Codec
    array: Callable[[Iterable[Any]], Any]


class TableStore(TaskStore):
    """The methods that are one query, or one after the other in a transaction."""

    PRUNED: ClassVar[tuple[str, ...]] = ("transitions", "notes", "commands")
    """What is removed before its task."""

    def __init__(self, dialect: Dialect) -> None:
        self._queries = dialect.queries
        self._codec = dialect.codec
        self._array = dialect.array

    @abstractmethod
    def _now(self) -> Any:
        """The moment for a call's columns; None where the database takes its own."""

    @abstractmethod
    def _reading(self) -> contextlib.AbstractContextManager[Database]:
        """A call that writes nothing."""

    @abstractmethod
    def _surveying(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction that writes nothing, and reads everything as it stood at one moment."""

    @abstractmethod
    def _writing(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction."""

    def _writing_long(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction in which each statement may take as long as a whole call."""
        return self._writing()

    # --- tasks -------------------------------------------------------------------------------------------

    def get(self, task_id: str) -> TaskSnapshot | None:
        rows = self._rows("get", id=task_id)
        return self._codec.snapshot_from_row(rows[0]) if rows else None

    def query(self, query: TaskQuery) -> list[TaskSnapshot]:
        text, values = self._render(query)
        with self._reading() as db:
            return [self._codec.snapshot_from_row(row) for row in db.execute(text, values).fetchall()]

    def history(self, task_id: str) -> list[Transition]:
        return [self._codec.transition_from_row(row) for row in self._rows("history", id=task_id)]

    def append(self, notes: Sequence[Note]) -> None:
        if not notes:
            return
        with self._writing() as db:
            now = self._now()
            db.executemany(self._queries["append"], [self._codec.note_to_columns(note, now) for note in notes])

    def notes(self, task_id: str) -> list[Note]:
        return [self._codec.note_from_row(row) for row in self._rows("notes", id=task_id)]

    def stats(self, buckets: frozenset[int] | None = None) -> dict[Status, int]:
        if buckets is None:
            rows = self._rows("stats")
        else:
            rows = self._rows("stats_buckets", buckets=self._array(sorted(buckets)))
        return dict.fromkeys(Status, 0) | {Status(row["status"]): row["tasks"] for row in rows}

    def bucket_loads(self) -> list[BucketLoad]:
        return [self._codec.bucket_load_from_row(row) for row in self._rows("bucket_loads", now=self._now())]

    def prunable(self, older_than: timedelta, *, limit: int = 100) -> list[TaskRecord]:
        values = {"now": self._now(), "age": self._age(older_than), "limit": limit}
        with self._reading() as db:
            ids = [row["id"] for row in db.execute(self._queries["prunable"], values).fetchall()]
            records = self._records(db, ids)
        return [records[task_id] for task_id in ids if task_id in records]

    def count_prunable(self, older_than: timedelta) -> int:
        return int(self._rows("count_prunable", now=self._now(), age=self._age(older_than))[0]["tasks"])

    def prune(self, records: Sequence[TaskRecord]) -> int:
        ended = {record.task.id: record for record in records if record.task.status.is_final}
        with self._writing() as db:
            # Held first: what is added to a task after it was compared would be removed unseen.
            db.execute(self._queries["prune_lock"], {"ids": self._array(ended)})
            standing = self._records(db, list(ended))
            same = self._array([task_id for task_id, record in standing.items() if record == ended[task_id]])
            for part in self.PRUNED:
                db.execute(self._queries[f"prune_{part}"], {"ids": same})
            gone = db.execute(self._queries["prune_tasks"], {"ids": same})
        return gone.rowcount

    def prune_traces(self, older_than: timedelta, *, limit: int = 1000) -> int:
        with self._writing() as db:
            values = {"now": self._now(), "age": self._age(older_than), "limit": limit}
            gone = [db.execute(self._queries[f"prune_{kind}"], values) for kind in ("firings", "terms", "alerts")]
        return sum(cursor.rowcount for cursor in gone)

    def _records(self, db: Database, ids: Sequence[str]) -> dict[str, TaskRecord]:
        """All that is kept of each of these tasks that is there."""
        values = {"ids": self._array(ids)}
        parts = (
            ("history_many", self._codec.transition_from_row),
            ("notes_many", self._codec.note_from_row),
            ("commands_many", self._codec.command_from_row),
        )
        kept: dict[str, list[list[Any]]] = {task_id: [[] for _ in parts] for task_id in ids}
        tasks = [self._codec.snapshot_from_row(row) for row in db.execute(self._queries["get_many"], values).fetchall()]
        for place, (query, read) in enumerate(parts):
            for row in db.execute(self._queries[query], values).fetchall():
                kept[row["task_id"]][place].append(read(row))
        return {task.id: TaskRecord(task, *(tuple(part) for part in kept[task.id])) for task in tasks}

    # --- leases ------------------------------------------------------------------------------------------

    def leases(self, ids: Iterable[str] | None = None) -> list[Lease]:
        if ids is None:
            rows = self._rows("leases", now=self._now())
        else:
            rows = self._rows("leases_ids", now=self._now(), ids=self._array(ids))
        return [self._codec.lease_from_row(row) for row in rows]

    # --- commands ----------------------------------------------------------------------------------------

    def complete_command(self, command_id: str, outcome: str, detail: str | None = None) -> None:
        self._write("complete_command", id=command_id, outcome=outcome, detail=detail, now=self._now())

    def release_command(self, command_id: str) -> None:
        self._write("release_command", id=command_id)

    def commands(self, task_id: str) -> list[Command]:
        return [self._codec.command_from_row(row) for row in self._rows("commands", id=task_id)]

    # --- schedules, nodes, deployment --------------------------------------------------------------------

    def claim_firing(self, name: str, key: str | None, planned: datetime, *, node: str, event_id: str) -> bool:
        firing = {"name": name, "key": key, "planned": self._codec.moment_in(planned), "node": node}
        with self._writing() as db:
            db.execute(self._queries["claim_firing"], firing | {"event_id": event_id, "now": self._now()})
            held = db.execute(self._queries["claim_firing_event"], firing).fetchone()
        return bool(held["event_id"] == event_id)

    def register_term(self, term: TermRecord, node: NodeRecord) -> None:
        with self._writing() as db:
            db.execute(self._queries["register_term"], self._codec.term_to_columns(term))
            db.execute(self._queries["register_term_node"], self._codec.node_to_columns(node, self._now()))

    def end_term(self, term: str) -> None:
        self._write("end_term", term=term, now=self._now())

    def terms(self, node: str) -> list[TermRecord]:
        return [self._codec.term_from_row(row) for row in self._rows("terms", node=node)]

    def nodes(self) -> list[NodeRecord]:
        return [self._codec.node_from_row(row) for row in self._rows("nodes", now=self._now())]

    def declare_buckets(self, node: str, buckets: frozenset[int] | None) -> None:
        with self._writing() as db:
            db.execute(self._queries["declare_buckets_none"], {"node": node})
            declared = {"node": node, "buckets": self._array(sorted(buckets or ())), "now": self._now()}
            db.execute(self._queries["declare_buckets"], declared)

    def declarations(self) -> list[BucketDeclaration]:
        return [self._codec.declaration_from_row(row) for row in self._rows("declarations")]

    def publish_catalogue(self, node: str, entries: Sequence[CatalogueEntry]) -> None:
        rows = [self._codec.catalogue_entry_to_columns(entry) | {"node": node} for entry in entries]
        with self._writing() as db:
            db.execute(self._queries["publish_catalogue_none"], {"node": node})
            if rows:
                db.executemany(self._queries["publish_catalogue"], rows)

    def catalogue(self, node: str | None = None) -> list[CatalogueEntry]:
        return [self._codec.catalogue_entry_from_row(row) for row in self._rows("catalogue", node=node)]

    def deployment(self) -> Deployment:
        return _deployment(self._rows("deployment")[0])

    def record_num_buckets(self, num_buckets: int) -> Deployment:
        self._write("record_num_buckets", num_buckets=num_buckets)
        return self.deployment()

    # --- holds, and nodes that are gone ------------------------------------------------------------------

    def place_hold(self, hold: SharedHold) -> int:
        target = {"scope": hold.scope, "target": hold.target}
        return self._change_holds("place_hold", target | {"by": hold.by, "reason": hold.reason, "now": self._now()})

    def lift_hold(self, scope: HoldScope, target: str) -> int:
        return self._change_holds("lift_hold", {"scope": scope, "target": target})

    def changed_holds(self, known: int | None) -> HoldList | None:
        rows = self._rows("changed_holds", known=known)
        if not rows:
            return None
        return HoldList(rows[0]["holds_revision"], self._holds(rows))

    def _holds(self, rows: Sequence[Any]) -> tuple[SharedHold, ...]:
        # Without any hold there is still the row with the revision.
        return tuple(self._codec.hold_from_row(row) for row in rows if row["scope"] is not None)

    def acknowledge_holds(self, term: str, revision: int) -> bool:
        with self._writing() as db:
            known = db.execute(self._queries["acknowledge_holds"], {"term": term, "revision": revision})
        return known.rowcount > 0

    def forget_node(self, node: str, event_id: str, *, actor: str, reason: str, limit: int = 1000) -> int:
        said = {"node": node, "event_id": event_id, "actor": actor, "reason": reason, "lost": Status.LOST.value}
        with self._writing() as db:
            now = {"now": self._now()}
            standing = db.execute(self._queries["forget_node_standing"], {"node": node} | now).fetchone()
            if standing is None:
                raise Refused(f"no node is called {node!r}")
            if standing["is_live"]:
                raise Refused(f"node {node} is live: only one that is gone can be forgotten")
            waiting = db.execute(self._queries["forget_node_waiting"], {"node": node, "limit": limit}).fetchall()
            ids = [row["id"] for row in waiting]
            for part in FORGOTTEN_WORK if ids else FORGOTTEN_NODE:
                db.execute(self._queries[f"forget_node_{part}"], said | now | {"ids": self._array(ids)})
            if not ids:
                db.execute(self._queries["holds_revision_raise"], {})
        return len(ids)

    def _change_holds(self, change: str, values: Mapping[str, Any]) -> int:
        with self._writing() as db:
            # First: it makes changes wait for each other, so that no revision stands for two lists.
            db.execute(self._queries["holds_revision_raise"], {})
            db.execute(self._queries[change], values)
            return int(db.execute(self._queries["holds_revision"], {}).fetchone()["holds_revision"])

    # --- the number of buckets ---------------------------------------------------------------------------

    def rebucket(
        self,
        num_buckets: int,
        event_id: str,
        *,
        actor: str,
        reason: str | None = None,
        on_progress: Progress | None = None,
    ) -> Rebucketing:
        policy = BucketPolicy(num_buckets)
        known = {"event_id": event_id, "now": self._now()}
        with self._writing_long() as db:
            db.execute(self._queries["rebucket_lock"], {})
            done = db.execute(self._queries["rebucket_done"], known).fetchone()
            if done is None:
                before, waiting = self._check_rebucket(db, known)
                change = {"by": actor, "reason": reason, "before": before, "after": num_buckets, "waiting": waiting}
                moved = self._move_tasks(db, policy, known | change, on_progress)
                for part in ("declarations", "deployment", "record"):
                    db.execute(self._queries[f"rebucket_{part}"], known | change | {"moved": moved})
                done = db.execute(self._queries["rebucket_done"], known).fetchone()
        return self._codec.rebucketing_from_row(done)

    def rebucketings(self) -> list[Rebucketing]:
        return [self._codec.rebucketing_from_row(row) for row in self._rows("rebucketings")]

    def _check_rebucket(self, db: Database, values: Mapping[str, Any]) -> tuple[int, int]:
        """The number of buckets as it stands, and how many waiting tasks have one."""

        def rows(query: str) -> list[Any]:
            return db.execute(self._queries[query], values).fetchall()

        counts = rows("rebucket_counts")[0]
        before = check_standing(
            recorded=rows("deployment")[0]["num_buckets"],
            live=[row["node"] for row in rows("rebucket_live")],
            runs=counts["runs"],
            held=[row["target"] for row in rows("rebucket_held")],
        )
        return before, counts["waiting"]

    def _move_tasks(
        self, db: Database, policy: BucketPolicy, change: dict[str, Any], on_progress: Progress | None
    ) -> int:
        waiting = db.execute(self._queries["rebucket_waiting"], {}).fetchall()
        moved = 0
        for first in range(0, len(waiting), _MOVED_AT_ONCE):
            rows = waiting[first : first + _MOVED_AT_ONCE]
            tasks = [
                {"id": row["id"], "bucket": bucket, "detail": _moved(row, bucket, change)} | change
                for row in rows
                if (bucket := policy.bucket_of(row["bucket_key"])) != row["bucket"]
            ]
            if tasks:
                for part in ("task", "note"):
                    db.executemany(self._queries[f"rebucket_{part}"], tasks)
            moved += len(tasks)
            if on_progress is not None:
                on_progress(first + len(rows), len(waiting))
        return moved

    # --- the deployment as a whole -----------------------------------------------------------------------

    def survey(self, *, still: timedelta) -> Survey:
        values = {"now": self._now(), "still": self._age(still), "node": None, "known": None}
        with self._surveying() as db:

            def rows(query: str) -> list[Any]:
                return db.execute(self._queries[query], values).fetchall()

            store = rows("survey")[0]
            return Survey(
                now=self._codec.moment_out(store["now"]),
                engine=store["engine"],
                engine_version=store["engine_version"],
                deployment=_deployment(rows("deployment")[0]),
                nodes=tuple(map(self._codec.node_from_row, rows("nodes"))),
                declarations=tuple(map(self._codec.declaration_from_row, rows("declarations"))),
                loads=tuple(map(self._codec.bucket_load_from_row, rows("bucket_loads"))),
                catalogue=tuple(map(self._codec.catalogue_entry_from_row, rows("catalogue"))),
                work=tuple(map(self._codec.open_work_from_row, rows("survey_work"))),
                commands=tuple(map(self._codec.open_commands_from_row, rows("survey_commands"))),
                holds=self._holds(rows("changed_holds")),
            )

    def report_clock(self, term: str, ahead: timedelta) -> None:
        self._write("report_clock", term=term, ahead=self._codec.span_in(ahead))

    def report_findings(self, findings: Sequence[Finding], *, quiet: timedelta, event_id: str) -> AlertChanges:
        named = {(finding.kind, finding.subject): finding.detail for finding in findings}
        values = {
            "kinds": self._array(kind for kind, _ in named),
            "subjects": self._array(subject for _, subject in named),
            "details": self._array(named.values()),
            "quiet": self._age(quiet),
            "event_id": event_id,
            "now": self._now(),
        }
        with self._writing() as db:
            for part in ("lock", "seen", "raise", "clear"):
                db.execute(self._queries[f"report_findings_{part}"], values)
            raised, cleared = (
                db.execute(self._queries[f"report_findings_{part}"], values) for part in ("raised", "cleared")
            )
        return AlertChanges(*(tuple(map(self._codec.alert_from_row, found.fetchall())) for found in (raised, cleared)))

    def alerts(self, *, cleared: bool = False, limit: int = 1000) -> list[Alert]:
        rows = self._rows("alerts", cleared=cleared, limit=limit)
        return [self._codec.alert_from_row(row) for row in rows]

    def acknowledge_alert(self, alert_id: int, by: str) -> Alert | None:
        self._write("acknowledge_alert", id=alert_id, by=by, now=self._now())
        rows = self._rows("acknowledge_alert_shown", id=alert_id)
        return self._codec.alert_from_row(rows[0]) if rows else None

    # --- calls -------------------------------------------------------------------------------------------

    def _rows(self, query: str, **values: Any) -> list[Any]:
        with self._reading() as db:
            return db.execute(self._queries[query], values).fetchall()

    def _write(self, query: str, **values: Any) -> None:
        with self._writing() as db:
            db.execute(self._queries[query], values)

    def _age(self, span: timedelta) -> Any:
        return self._codec.span_in(min(span, _OLDEST))

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


def _asked(query: TaskQuery) -> dict[str, Any]:
    asked = {field.name: getattr(query, field.name) for field in fields(query) if field.name != "limit"}
    asked["tags"] = asked["tags"] or None
    return {name: value for name, value in asked.items() if value is not None}


def _moved(row: Any, bucket: int, change: Mapping[str, Any]) -> str:
    reason = f": {change['reason']}" if change["reason"] else ""
    return f"from bucket {row['bucket']} of {change['before']} to {bucket} of {change['after']}{reason}"


def _deployment(row: Any) -> Deployment:
    return Deployment(row["num_buckets"], row["schema_version"], row["oldest_code"])
