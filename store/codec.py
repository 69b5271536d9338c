"""Between values and columns. Composite values are JSON text everywhere; of times each database has its own form."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from chong.store.alert import Alert
from chong.store.model import (
    Action,
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Failure,
    FailureKind,
    HoldScope,
    Lease,
    NodeRecord,
    Note,
    Progress,
    SharedHold,
    StopMoments,
    TaskSnapshot,
    TermRecord,
    Transition,
    Usage,
)
from chong.store.rebucketing import Rebucketing
from chong.store.states import Status
from chong.store.survey import OpenCommands, OpenWork

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# One encoder for all calls: json.dumps with options builds a new one each time. NaN is refused because it is no JSON:
# a store with a JSON type would not take it.
to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Row(Protocol):
    """A row whose values are read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


def to_micros(moment: datetime) -> int:
    """Exact, unlike `timestamp()`; a time without a zone is a TypeError."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def span_to_micros(span: timedelta) -> int:
    return span // _MICROSECOND


def span_from_micros(micros: int) -> timedelta:
    return micros * _MICROSECOND


@dataclass(frozen=True, slots=True)
class Times:
    """How a database takes and gives moments and spans."""

    moment_in: Callable[[datetime], Any]
    moment_out: Callable[[Any], datetime]
    span_in: Callable[[timedelta], Any]
    span_out: Callable[[Any], timedelta]


MICROSECONDS = Times(to_micros, from_micros, span_to_micros, span_from_micros)
"""Whole numbers: microseconds since 1970 UTC."""


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise TypeError("a time without a zone")
    return moment.astimezone(UTC)


def _as_it_is(span: timedelta) -> timedelta:
    return span


NATIVE = Times(_in_utc, _in_utc, _as_it_is, _as_it_is)
"""The database has types of its own, and its driver speaks Python's."""


def set_to_json(values: Iterable[str]) -> str:
    """Sorted, so that equal sets give equal text."""
    return to_json(sorted(values))


def _set_from_json(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def _failure_to_json(failure: Failure) -> str:
    return to_json([failure.kind, failure.cause, failure.message, failure.traceback])


def _failure_from_json(text: str) -> Failure:
    kind, *rest = json.loads(text)
    return Failure(FailureKind(kind), *rest)


_MOMENTS = ("asked_at", "delivered_at", "acknowledged_at", "effective_at")


def _stop_to_json(stop: StopMoments) -> str:
    moments = {name: getattr(stop, name) for name in _MOMENTS}
    micros = {name: None if at is None else to_micros(at) for name, at in moments.items()}
    return to_json({"by": stop.by, "reason": stop.reason, **micros})


def _stop_from_json(text: str) -> StopMoments:
    stop: dict[str, Any] = json.loads(text)
    for name in _MOMENTS:
        if stop[name] is not None:
            stop[name] = from_micros(stop[name])
    return StopMoments(**stop)


def _progress_to_json(progress: Progress) -> str:
    return to_json([progress.done, progress.total, progress.message])


def _usage_to_json(usage: Usage) -> str:
    return to_json([usage.cpu_seconds, usage.rss_bytes, usage.max_rss_bytes])


# What the lease row says, or what the store copies from it: a save never writes these.
_FROM_LEASE = frozenset({"lease_owner", "lease_until", "last_heartbeat_at", "progress", "usage"})
_WRITTEN = tuple(field.name for field in fields(TaskSnapshot) if field.name not in _FROM_LEASE)

_MOMENT_COLUMNS = (
    "at",
    "stored_at",
    "created_at",
    "status_changed_at",
    "started_at",
    "ended_at",
    "issued_at",
    "finished_at",
    "claimed_until",
    "seen_at",
    "until",
    "lease_until",
    "last_heartbeat_at",
    "since",
    "first_seen",
    "last_seen",
    "cleared_at",
    "acknowledged_at",
)

_TO_COLUMN: dict[str, Callable[[Any], Any]] = {
    "tags": set_to_json,
    "flags": set_to_json,
    "failure": _failure_to_json,
    "outcome": to_json,
    "stop": _stop_to_json,
}

_FROM_COLUMN: dict[str, Callable[[Any], Any]] = {
    "status": Status,
    "source": Status,
    "target": Status,
    "action": Action,
    "tags": _set_from_json,
    "flags": _set_from_json,
    "failure": _failure_from_json,
    "stop": _stop_from_json,
    "progress": lambda text: Progress(*json.loads(text)),
    "usage": lambda text: Usage(*json.loads(text)),
    "limits": json.loads,
    "options": json.loads,
    "forced": bool,
    "is_past": bool,
    "is_live": bool,
}


class Codec:
    """Rows of one database to values of the model, and back."""

    def __init__(self, times: Times) -> None:
        self.moment_in, self.moment_out = times.moment_in, times.moment_out
        self.span_in, self.span_out = times.span_in, times.span_out
        self._in = _TO_COLUMN | dict.fromkeys(_MOMENT_COLUMNS, times.moment_in)
        self._out = (
            _FROM_COLUMN
            | dict.fromkeys(_MOMENT_COLUMNS, times.moment_out)
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

    def _values(self, row: Row) -> dict[str, Any]:
        values = {}
        for name in row.keys():  # noqa: SIM118 - iterating over a row gives its values
            value = row[name]
            convert = self._out.get(name)
            values[name] = value if convert is None or value is None else convert(value)
        return values

    def snapshot_from_row(self, row: Row) -> TaskSnapshot:
        values = self._values(row)
        # Not in the table above: a command has an outcome too, and that one is a plain word.
        if values["outcome"] is not None:
            values["outcome"] = json.loads(values["outcome"])
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
            stored_at,
        )

    def transition_from_row(self, row: Row) -> Transition:
        return Transition(**self._values(row))

    def note_from_row(self, row: Row) -> Note:
        return Note(**self._values(row))

    def lease_from_row(self, row: Row) -> Lease:
        return Lease(**self._values(row))

    def command_from_row(self, row: Row) -> Command:
        return Command(**self._values(row))

    def term_from_row(self, row: Row) -> TermRecord:
        return TermRecord(**self._values(row))

    def node_from_row(self, row: Row) -> NodeRecord:
        return NodeRecord(**self._values(row))

    def catalogue_entry_from_row(self, row: Row) -> CatalogueEntry:
        return CatalogueEntry(**self._values(row))

    def open_work_from_row(self, row: Row) -> OpenWork:
        return OpenWork(**self._values(row))

    def open_commands_from_row(self, row: Row) -> OpenCommands:
        return OpenCommands(**self._values(row))

    def alert_from_row(self, row: Row) -> Alert:
        return Alert(**self._values(row))

    def rebucketing_from_row(self, row: Row) -> Rebucketing:
        return Rebucketing(**self._values(row))

    def bucket_load_from_row(self, row: Row) -> BucketLoad:
        wait = row["oldest_wait"]
        return BucketLoad(
            bucket=row["bucket"],
            queued=row["queued"],
            running=row["running"],
            expired=row["expired"],
            # Never negative, not even after the clock jumped back.
            oldest_wait=None if wait is None else max(timedelta(0), self.span_out(wait)),
        )

    def declaration_from_row(self, row: Row) -> BucketDeclaration:
        return BucketDeclaration(row["bucket"], row["node"], self.moment_out(row["updated_at"]))

    def hold_from_row(self, row: Row) -> SharedHold:
        # By hand: the target of a hold is no state, as that of a transition is.
        since = self.moment_out(row["since"])
        return SharedHold(
            scope=HoldScope(row["scope"]), target=row["target"], by=row["by"], reason=row["reason"], since=since
        )

    def note_to_columns(self, note: Note, now: Any) -> dict[str, Any]:
        return asdict(note) | {"at": self.moment_in(note.at), "now": now}

    def beats_to_columns(self, beats: Iterable[Beat], term: str) -> tuple[list[dict[str, Any]], str | None]:
        """The rows that can be stored, and what is wrong with the last one that cannot."""
        rows, refused = [], None
        for beat in beats:
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
            "progress": None if beat.progress is None else _progress_to_json(beat.progress),
            "usage": None if beat.usage is None else _usage_to_json(beat.usage),
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


def _fields_of(record: NodeRecord | CatalogueEntry) -> dict[str, Any]:
    # Not asdict(): it copies deeply, and fails on mappings that are no dict.
    return {field.name: getattr(record, field.name) for field in fields(record)}
