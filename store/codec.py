"""Between values of the model and rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, Protocol

from chong.store.alert import Alert
from chong.store.columns import (
    EXPECTED,
    FROM_COLUMN,
    MOMENT_COLUMNS,
    TO_COLUMN,
    Times,
    attempt_end_to_json,
    num_buckets_from_column,
    number_from_column,
    plain_from_column,
    progress_to_json,
    text_from_column,
    to_json,
    usage_to_json,
)
from chong.store.contract import OnUnreadable
from chong.store.deployment import sole_row
from chong.store.errors import UnreadableRow
from chong.store.ids import is_id
from chong.store.model import (
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Deployment,
    HoldScope,
    Lease,
    NodeRecord,
    Note,
    SharedHold,
    TaskSnapshot,
    TermRecord,
    Transition,
)
from chong.store.rebucketing import Rebucketing
from chong.store.states import Status
from chong.store.survey import OpenCommands, OpenWork

_COMMAND = tuple(field.name for field in fields(Command))
_COMMAND_WORDS = ("id", "task_id", "issued_by", "reason")

_KEYS = ("id", "task_id", "term", "node", "target", "number")
"""By which a row is found again: the first of them that it has."""

# What the lease row says, or what the store copies from it: a save never writes these.
_FROM_LEASE = frozenset({"lease_owner", "lease_until", "last_heartbeat_at", "progress", "usage"})
_WRITTEN = tuple(field.name for field in fields(TaskSnapshot) if field.name not in _FROM_LEASE)


_NODE_REST: dict[str, Any] = {
    "ttl": timedelta(0),
    "limits": {},
    "machine_id": "",
    "pid": 0,
    "generation": 0,
    **dict.fromkeys(("started_at", "seen_at", "ended_at", "holds_seen", "clock_ahead")),
}
"""What stands for a value of a node that is there for people to see."""

_REBUCKETING_REST: dict[str, Any] = {
    "at": None,
    "by": "",
    "reason": None,
    **dict.fromkeys(("before", "after", "waiting", "moved"), 0),
}
"""What stands for a value of a change of the number of buckets, which is there for people to see."""


class Row(Protocol):
    """A row whose values are read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Codec:
    """Rows of one database to values of the model, and back."""

    def __init__(self, times: Times) -> None:
        self.moment_in, self.moment_out = times.moment_in, times.moment_out
        self.span_in, self.span_out = times.span_in, times.span_out
        self._in = TO_COLUMN | dict.fromkeys(MOMENT_COLUMNS, times.moment_in)
        self._out = (
            FROM_COLUMN
            | dict.fromkeys(MOMENT_COLUMNS, times.moment_out)
            | dict.fromkeys(("ttl", "clock_ahead"), times.span_out)
        )

    def snapshot_to_columns(self, snapshot: TaskSnapshot) -> dict[str, Any]:
        """The columns that a save writes, by name."""
        columns = {}
        for name in _WRITTEN:
            value, convert = getattr(snapshot, name), self._in.get(name)
            columns[name] = value if convert is None or value is None else convert(value)
        columns["tail"] = snapshot.id[::-1]
        return columns

    def _values(self, table: str, row: Row) -> dict[str, Any]:
        """By column name; UnreadableRow for a value that no store of ours has written."""
        return {name: _value(table, row, name, self._out.get(name)) for name in row.keys()}  # noqa: SIM118 - not a dict

    def _told_values(self, table: str, row: Row, tell: OnUnreadable, rest: Mapping[str, Any]) -> dict[str, Any]:
        """As `_values`, with what stands in `rest` for what cannot be read, which is told."""

        def read(name: str) -> Any:
            convert = self._out.get(name)
            return (
                _told(table, row, name, convert, tell, rest[name])
                if name in rest
                else _value(table, row, name, convert)
            )

        return {name: read(name) for name in row.keys()}  # noqa: SIM118 - not a dict

    def snapshot_from_row(self, row: Row) -> TaskSnapshot:
        values = self._values("tasks", row)
        # Not among the converters: a command has an outcome too, and that one is a plain word; a node's version is one.
        values["outcome"] = _value("tasks", row, "outcome", json.loads)
        values["version"] = _value("tasks", row, "version", number_from_column)
        return TaskSnapshot(**values)

    def transition_to_columns(self, transition: Transition, stored_at: Any) -> tuple[Any, ...]:
        """In the order of `save_transition`."""
        return (
            transition.task_id,
            transition.version,
            transition.source,
            transition.target,
            self.moment_in(transition.at),
            transition.actor,
            transition.event_id,
            transition.reason,
            None if transition.ended is None else attempt_end_to_json(transition.ended),
            stored_at,
        )

    def transition_from_row(self, row: Row) -> Transition:
        return Transition(**self._values("transitions", row))

    def note_from_row(self, row: Row) -> Note:
        return Note(**self._values("notes", row))

    def lease_from_row(self, row: Row) -> Lease:
        return Lease(**self._values("leases", row))

    def command_from_row(self, row: Row) -> Command:
        values = self._values("commands", row)
        # Words that go on from here into states, logs and answers; SQLite keeps whatever it is given.
        words = {name: _value("commands", row, name, text_from_column) for name in _COMMAND_WORDS}
        return Command(**{field: values[field] for field in _COMMAND} | words)

    def commands_from_rows(self, rows: Iterable[Row]) -> tuple[list[Command], list[tuple[Row, UnreadableRow]]]:
        """Those that can be read, and the others, each with what is wrong with it."""
        found, faults = [], []
        for row in rows:
            try:
                found.append(self.command_from_row(row))
            except UnreadableRow as fault:
                faults.append((row, fault))
        return found, faults

    def term_from_row(self, row: Row) -> TermRecord:
        return TermRecord(**self._values("terms", row))

    def node_from_row(self, row: Row, tell: OnUnreadable) -> NodeRecord:
        """As much of it as can be read: it is there. UnreadableRow for what says whose it is."""
        return NodeRecord(**self._told_values("nodes", row, tell, _NODE_REST))

    def catalogue_entry_from_row(self, row: Row, tell: OnUnreadable) -> CatalogueEntry:
        """As much of it as can be read: it may be held."""
        return CatalogueEntry(**self._told_values("catalogue", row, tell, {"options": {}}))

    def open_work_from_row(self, row: Row) -> OpenWork:
        return OpenWork(**self._values("tasks", row))

    def open_commands_from_row(self, row: Row) -> OpenCommands:
        return OpenCommands(**self._values("commands", row))

    def alert_from_row(self, row: Row) -> Alert:
        return Alert(**self._values("alerts", row))

    def rebucketing_from_row(self, row: Row, tell: OnUnreadable) -> Rebucketing:
        """As much of it as can be read: it was done."""
        values = self._told_values("rebucketings", row, tell, _REBUCKETING_REST)
        del values["number"]
        return Rebucketing(**values)

    def rebucketed_at(self, row: Row, tell: OnUnreadable, now: datetime) -> datetime | None:
        """None for never; `now` where it cannot be read: no declaration is known to be newer."""
        at: datetime | None = _told("rebucketings", row, "at", self.moment_out, tell, now)
        return at

    def deployment_from_rows(self, rows: Sequence[Row]) -> Deployment:
        row = sole_row(next(iter(rows), None))
        readers = {"num_buckets": num_buckets_from_column, **dict.fromkeys(SCHEMA_COLUMNS, number_from_column)}
        return Deployment(*(_value("deployment", row, name, read) for name, read in readers.items()))

    def bucket_load_from_row(self, row: Row) -> BucketLoad:
        wait = _value("tasks", row, "oldest_wait", self.span_out)
        return BucketLoad(
            bucket=_value("tasks", row, "bucket", number_from_column),
            queued=row["queued"],
            running=row["running"],
            expired=row["expired"],
            # Never negative, not even after the clock jumped back.
            oldest_wait=None if wait is None else max(timedelta(0), wait),
        )

    def declaration_from_row(self, row: Row, tell: OnUnreadable) -> BucketDeclaration:
        """As much of it as can be read: it is a claim."""
        return BucketDeclaration(**self._told_values("node_buckets", row, tell, {"updated_at": None}))

    def hold_from_row(self, row: Row, tell: OnUnreadable) -> SharedHold:
        """As much of it as can be read, whatever that is: it holds. `tell` hears of the rest."""
        # By hand: the target of a hold is no state, as that of a transition is.
        words = {name: _word(row, name, tell) for name in ("target", "by", "reason")}
        since = _told("holds", row, "since", self.moment_out, tell, None)
        return SharedHold(scope=HoldScope(row["scope"]), since=since, **words)

    def notes_to_columns(self, notes: Iterable[Note]) -> tuple[list[dict[str, Any]], str | None]:
        """As `beats_to_columns`; each row still needs its `now`."""
        rows, refused = [], None
        for note in notes:
            try:
                rows.append(asdict(note) | {"at": self.moment_in(note.at)})
            except (TypeError, ValueError) as error:
                refused = f"task {note.task_id}: a note {note.kind!r} cannot be stored: {error}"
        return rows, refused

    def beats_to_columns(self, beats: Iterable[Beat], term: str) -> tuple[list[dict[str, Any]], str | None]:
        """The rows that can be stored, and what is wrong with the last one that cannot."""
        rows, refused = [], None
        for beat in beats:
            if not is_id(beat.task_id):
                continue
            try:
                rows.append(self._beat_to_columns(beat, term))
            except (TypeError, ValueError) as error:
                refused = f"task {beat.task_id}: cannot be stored: {error}"
        return rows, refused

    def _beat_to_columns(self, beat: Beat, term: str) -> dict[str, Any]:
        return {
            "term": term,
            "task_id": beat.task_id,
            "heartbeat_at": None if beat.heartbeat_at is None else self.moment_in(beat.heartbeat_at),
            "progress": None if beat.progress is None else progress_to_json(beat.progress),
            "usage": None if beat.usage is None else usage_to_json(beat.usage),
        }

    def command_to_columns(self, command: Command) -> dict[str, Any]:
        """The request only; claims and ends are the store's to write."""
        return {
            "id": command.id,
            "task_id": command.task_id,
            "action": command.action,
            "issued_by": command.issued_by,
            "issued_at": self.moment_in(command.issued_at),
            "reason": command.reason,
        }

    def term_to_columns(self, term: TermRecord) -> dict[str, Any]:
        return asdict(term) | {"started_at": self.moment_in(term.started_at)}

    def node_to_columns(self, node: NodeRecord, now: Any) -> dict[str, Any]:
        started_at = None if node.started_at is None else self.moment_in(node.started_at)
        return _fields_of(node) | {
            "ttl": self.span_in(node.ttl),
            "limits": to_json(dict(node.limits)),
            "started_at": started_at,
            "now": now,
        }

    def catalogue_entry_to_columns(self, entry: CatalogueEntry) -> dict[str, Any]:
        return _fields_of(entry) | {"options": to_json(dict(entry.options))}


def as_json_text(row: Row) -> str:
    """A row as it stands, for people and later versions; what JSON has no word for is written as Python shows it."""
    return json.dumps({name: row[name] for name in row.keys()}, default=repr, sort_keys=True)  # noqa: SIM118 - no dict


SCHEMA_COLUMNS = ("schema_version", "oldest_code")
"""Of the deployment: what its tables are, and who may use them."""


def schema_from_row(row: Row | None) -> tuple[int, int]:
    """The version of the tables, and the oldest code that may use them; UnreadableRow for what is none."""
    found = sole_row(row)
    version, oldest = (_value("deployment", found, name, number_from_column) for name in SCHEMA_COLUMNS)
    return version, oldest


def judged_from_row(row: Row) -> tuple[str, int, Status]:
    """Of a run that is to end by its lease: its id, its version and its state."""
    return row["id"], _value("tasks", row, "version", number_from_column), status_from_row(row)


def status_from_row(row: Row) -> Status:
    """Of a count; UnreadableRow for one that no store of ours has written."""
    found: Status = _value("tasks", row, "status", Status)
    return found


def _told(table: str, row: Row, name: str, convert: Callable[[Any], Any] | None, tell: OnUnreadable, rest: Any) -> Any:
    try:
        return _value(table, row, name, convert)
    except UnreadableRow as fault:
        tell(fault)
        return rest


def _word(row: Row, name: str, tell: OnUnreadable) -> Any:
    """Of a hold: the nearest text to what stands there."""
    value = row[name]
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else value
    rest = text.replace("\0", r"\x00") if isinstance(text, str) else text
    return _told("holds", row, name, text_from_column, tell, rest)


def _value(table: str, row: Row, name: str, convert: Callable[[Any], Any] | None) -> Any:
    value = row[name]
    if value is None:
        return None
    convert = convert or plain_from_column
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        keys = ("node",) if table == "nodes" else _KEYS  # not by its term, which changes
        key = next((str(row[name]) for name in keys if name in row.keys()), "")  # noqa: SIM118
        raise UnreadableRow(table, key, name, EXPECTED.get(convert, convert.__name__), value) from error


def _fields_of(record: NodeRecord | CatalogueEntry) -> dict[str, Any]:
    # Not asdict(): it copies deeply, and fails on mappings that are no dict.
    return {field.name: getattr(record, field.name) for field in fields(record)}
