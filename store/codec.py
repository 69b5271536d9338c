"""Between values and columns: times are microseconds since 1970 UTC, composite values JSON text."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from chong.store.errors import UnreadableRow
from chong.store.model import (
    Action,
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Failure,
    FailureKind,
    Lease,
    NodeRecord,
    Note,
    Progress,
    StopMoments,
    TaskSnapshot,
    TermRecord,
    Transition,
    Usage,
)
from chong.store.states import Status

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# One encoder for all calls: json.dumps with options builds a new one each time. NaN is refused because it is no JSON:
# a store with a JSON type would not take it.
to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Row(Protocol):
    """A row whose values are read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> list[str]: ...


def to_micros(moment: datetime) -> int:
    """Exact, unlike `timestamp()`; a time without a zone is a TypeError."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def span_to_micros(span: timedelta) -> int:
    return span // _MICROSECOND


def span_from_micros(micros: int) -> timedelta:
    return micros * _MICROSECOND


def set_to_json(values: Iterable[str]) -> str:
    """Sorted, so that equal sets give equal text."""
    return to_json(sorted(values))


def _from_json(kind: type, text: str) -> Any:
    """ValueError for JSON of any other kind."""
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__}")
    return value


def _set_from_json(text: str) -> frozenset[str]:
    return frozenset(map(str, _from_json(list, text)))


def _object_from_json(text: str) -> dict[str, Any]:
    return dict(_from_json(dict, text))


def _failure_to_json(failure: Failure) -> str:
    return to_json([failure.kind, failure.cause, failure.message, failure.traceback])


def _failure_from_json(text: str) -> Failure:
    kind, *rest = _from_json(list, text)
    return Failure(FailureKind(kind), *rest)


_MOMENTS = ("asked_at", "delivered_at", "acknowledged_at", "effective_at")


def _stop_to_json(stop: StopMoments) -> str:
    moments = {name: getattr(stop, name) for name in _MOMENTS}
    micros = {name: None if at is None else to_micros(at) for name, at in moments.items()}
    return to_json({"by": stop.by, "reason": stop.reason, **micros})


def _stop_from_json(text: str) -> StopMoments:
    stop = _object_from_json(text)
    for name in _MOMENTS:
        if stop[name] is not None:
            stop[name] = from_micros(stop[name])
    return StopMoments(**stop)


def _progress_to_json(progress: Progress) -> str:
    return to_json([progress.done, progress.total, progress.message])


def _progress_from_json(text: str) -> Progress:
    return Progress(*_from_json(list, text))


def _usage_from_json(text: str) -> Usage:
    return Usage(*_from_json(list, text))


def _usage_to_json(usage: Usage) -> str:
    return to_json([usage.cpu_seconds, usage.rss_bytes, usage.max_rss_bytes])


_TO_COLUMN: dict[str, Callable[[Any], Any]] = {
    "created_at": to_micros,
    "status_changed_at": to_micros,
    "started_at": to_micros,
    "ended_at": to_micros,
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
    "at": from_micros,
    "stored_at": from_micros,
    "created_at": from_micros,
    "status_changed_at": from_micros,
    "started_at": from_micros,
    "ended_at": from_micros,
    "issued_at": from_micros,
    "finished_at": from_micros,
    "claimed_until": from_micros,
    "seen_at": from_micros,
    "until": from_micros,
    "ttl": span_from_micros,
    "lease_until": from_micros,
    "last_heartbeat_at": from_micros,
    "tags": _set_from_json,
    "flags": _set_from_json,
    "failure": _failure_from_json,
    "stop": _stop_from_json,
    "progress": _progress_from_json,
    "usage": _usage_from_json,
    "limits": _object_from_json,
    "options": _object_from_json,
    "forced": bool,
    "is_past": bool,
    "is_live": bool,
}

_EXPECTED: dict[Callable[[Any], Any], str] = {
    Status: "a state of chong",
    Action: "an action of chong",
    from_micros: "a time in microseconds",
    span_from_micros: "a length of time in microseconds",
    _set_from_json: "a JSON list",
    _failure_from_json: "a JSON list of kind, cause, message and traceback",
    _stop_from_json: "a JSON object with who, why and four times",
    _progress_from_json: "a JSON list of done, total and message",
    _usage_from_json: "a JSON list of three numbers",
    _object_from_json: "a JSON object",
    json.loads: "JSON",
}

_KEYS = ("id", "task_id", "term", "node")
"""By which a row is found again: the first of them that it has."""

# What the lease row says, or what the store copies from it: a save never writes these.
_FROM_LEASE = frozenset({"lease_owner", "lease_until", "last_heartbeat_at", "progress", "usage"})
_WRITTEN = tuple(
    (field.name, _TO_COLUMN.get(field.name)) for field in fields(TaskSnapshot) if field.name not in _FROM_LEASE
)


def snapshot_to_columns(snapshot: TaskSnapshot) -> dict[str, Any]:
    """The columns that a save writes, by name."""
    columns = {}
    for name, convert in _WRITTEN:
        value = getattr(snapshot, name)
        columns[name] = value if convert is None or value is None else convert(value)
    columns["tail"] = snapshot.id[::-1]
    return columns


def _values(table: str, row: Row) -> dict[str, Any]:
    """By column name; UnreadableRow for a value that no store of ours has written."""
    return {name: _value(table, row, name, _FROM_COLUMN.get(name)) for name in row.keys()}  # noqa: SIM118 - not a dict


def _value(table: str, row: Row, name: str, convert: Callable[[Any], Any] | None) -> Any:
    value = row[name]
    if convert is None or value is None:
        return value
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        key = next((str(row[name]) for name in _KEYS if name in row.keys()), "")  # noqa: SIM118
        raise UnreadableRow(table, key, name, _EXPECTED.get(convert, convert.__name__), value) from error


def snapshot_from_row(row: Row) -> TaskSnapshot:
    values = _values("tasks", row)
    # Not in the table above: a command has an outcome too, and that one is a plain word.
    values["outcome"] = _value("tasks", row, "outcome", json.loads)
    return TaskSnapshot(**values)


def transition_to_columns(transition: Transition, stored_at: int) -> tuple[Any, ...]:
    """In the order of `save_transition`."""
    return (
        transition.task_id,
        transition.version,
        transition.source,
        transition.target,
        to_micros(transition.at),
        transition.actor,
        transition.event_id,
        transition.reason,
        stored_at,
    )


def transition_from_row(row: Row) -> Transition:
    return Transition(**_values("transitions", row))


def note_from_row(row: Row) -> Note:
    return Note(**_values("notes", row))


def lease_from_row(row: Row) -> Lease:
    return Lease(**_values("leases", row))


def command_from_row(row: Row) -> Command:
    return Command(**_values("commands", row))


def term_from_row(row: Row) -> TermRecord:
    return TermRecord(**_values("terms", row))


def node_from_row(row: Row) -> NodeRecord:
    return NodeRecord(**_values("nodes", row))


def catalogue_entry_from_row(row: Row) -> CatalogueEntry:
    return CatalogueEntry(**_values("catalogue", row))


def bucket_load_from_row(row: Row) -> BucketLoad:
    wait = row["oldest_wait"]
    return BucketLoad(
        bucket=row["bucket"],
        queued=row["queued"],
        running=row["running"],
        expired=row["expired"],
        # Never negative, not even after the clock jumped back.
        oldest_wait=None if wait is None else span_from_micros(max(0, wait)),
    )


def declaration_from_row(row: Row) -> BucketDeclaration:
    return BucketDeclaration(row["bucket"], row["node"], from_micros(row["updated_at"]))


def note_to_columns(note: Note, stored_at: int) -> dict[str, Any]:
    return asdict(note) | {"at": to_micros(note.at), "stored_at": stored_at}


def beats_to_columns(beats: Iterable[Beat], term: str) -> tuple[list[dict[str, Any]], str | None]:
    """The rows that can be stored, and what is wrong with the last one that cannot."""
    rows, refused = [], None
    for beat in beats:
        try:
            rows.append(_beat_to_columns(beat, term))
        except (TypeError, ValueError) as error:
            refused = f"task {beat.task_id}: cannot be stored: {error}"
    return rows, refused


def _beat_to_columns(beat: Beat, term: str) -> dict[str, Any]:
    return {
        "term": term,
        "task_id": beat.task_id,
        "heartbeat_at": None if beat.heartbeat_at is None else to_micros(beat.heartbeat_at),
        "progress": None if beat.progress is None else _progress_to_json(beat.progress),
        "usage": None if beat.usage is None else _usage_to_json(beat.usage),
    }


def command_to_columns(command: Command) -> dict[str, Any]:
    """The request only; claims and ends are the store's to write."""
    return {
        "id": command.id,
        "task_id": command.task_id,
        "action": command.action,
        "issued_by": command.issued_by,
        "issued_at": to_micros(command.issued_at),
        "reason": command.reason,
    }


def term_to_columns(term: TermRecord) -> dict[str, Any]:
    return asdict(term) | {"started_at": to_micros(term.started_at)}


def node_to_columns(node: NodeRecord, now: int) -> dict[str, Any]:
    started_at = None if node.started_at is None else to_micros(node.started_at)
    return _fields_of(node) | {
        "ttl": span_to_micros(node.ttl),
        "limits": to_json(dict(node.limits)),
        "started_at": started_at,
        "now": now,
    }


def catalogue_entry_to_columns(entry: CatalogueEntry) -> dict[str, Any]:
    return _fields_of(entry) | {"options": to_json(dict(entry.options))}


def _fields_of(record: NodeRecord | CatalogueEntry) -> dict[str, Any]:
    # Not asdict(): it copies deeply, and fails on mappings that are no dict.
    return {field.name: getattr(record, field.name) for field in fields(record)}
