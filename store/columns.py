"""Between values and columns, one at a time. Composite values are JSON text everywhere; of times each database has its
own form.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any

from chong.store.buckets import MAX_NUM_BUCKETS
from chong.store.model import (
    Action,
    AttemptEnd,
    Failure,
    FailureKind,
    Progress,
    StopMoments,
    Usage,
)
from chong.store.states import Status

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BOUND = 2**63
"""What every number stays below, on either side: others cannot be added up, nor written as a fraction."""

# One encoder for all calls: json.dumps with options builds a new one each time. NaN is refused because it is no JSON:
# a store with a JSON type would not take it.
to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


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
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise TypeError("no time, or one without a zone")
    return moment.astimezone(UTC)


def _as_it_is(span: timedelta) -> timedelta:
    if not isinstance(span, timedelta):
        raise TypeError("no length of time")
    return span


NATIVE = Times(_in_utc, _in_utc, _as_it_is, _as_it_is)
"""The database has types of its own, and its driver speaks Python's."""


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


def _limits_from_json(text: str) -> dict[str, int | None]:
    limits = _object_from_json(text)
    for limit in limits.values():
        _check(_quantity(limit), int)
    return limits


def _quantity(value: Any) -> Any:
    """A number, or None; TypeError or ValueError for all else, and for what nobody can calculate with."""
    return None if value is None else _known_quantity(value)


def _known_quantity(value: Any) -> Any:
    if type(value) not in (int, float):  # true and false are numbers to Python alone
        raise TypeError("no number")
    if not -_BOUND <= value < _BOUND:  # nor is NaN
        raise ValueError("no finite number of 64 bits")
    return value


def _failure_to_json(failure: Failure) -> str:
    return to_json([failure.kind, failure.cause, failure.message, failure.traceback])


def _failure_from_json(text: str) -> Failure:
    kind, cause, message, *rest = _from_json(list, text)
    for each in rest:
        _check(each, str)
    return Failure(FailureKind(kind), _known_text(cause), _known_text(message), *rest)


def _known_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _check(value: Any, kind: type | UnionType) -> None:
    """TypeError for what is neither of the kind nor None: what stands in a composite value goes on from here, too."""
    if not isinstance(value, kind | None):
        raise TypeError(f"expected {kind}")


def number_from_column(value: Any) -> int:
    """TypeError for what is no whole number."""
    if not isinstance(value, int):
        raise TypeError("no whole number")
    return value


def num_buckets_from_column(value: Any) -> int:
    """TypeError or ValueError for what no deployment can have."""
    if not 1 <= number_from_column(value) <= MAX_NUM_BUCKETS:
        raise ValueError("no number of buckets")
    return int(value)


def text_from_column(value: Any) -> str:
    """TypeError or ValueError for what is no text, or none that could be written again: it goes on from here."""
    if not isinstance(value, str):
        raise TypeError("no text")
    value.encode()
    if "\0" in value:
        raise ValueError("a NUL")
    return value


def plain_from_column(value: Any) -> Any:
    """SQLite keeps whatever it is given: no column of ours has bytes, or text that is none."""
    return text_from_column(value) if isinstance(value, str | bytes) else value


_WHOLE_FACTS = ("attempt", "exit_code", "exit_signal", "max_rss_bytes")
_WORD_FACTS = ("kind", "cause")


def attempt_end_to_json(ended: AttemptEnd) -> str:
    """TypeError or ValueError for what would not be read back."""
    facts = asdict(ended)
    _checked_facts(facts)
    return to_json({name: value for name, value in facts.items() if value is not None})


def _attempt_end_from_json(text: str) -> AttemptEnd:
    """What a later version has added to it is left out."""
    known = AttemptEnd.__dataclass_fields__
    facts = {name: value for name, value in _object_from_json(text).items() if name in known}
    _checked_facts(facts)
    return AttemptEnd(**facts)


def _checked_facts(facts: dict[str, Any]) -> None:
    number_from_column(facts["attempt"])
    for name in _WHOLE_FACTS:
        _check(_quantity(facts.get(name)), int)
    for name in _WORD_FACTS:
        _check(facts.get(name), str)
    _check(facts.get("forced"), bool)
    _quantity(facts.get("cpu_seconds"))


_MOMENTS = ("asked_at", "delivered_at", "acknowledged_at", "effective_at")


def _stop_to_json(stop: StopMoments) -> str:
    moments = {name: getattr(stop, name) for name in _MOMENTS}
    micros = {name: None if at is None else to_micros(at) for name, at in moments.items()}
    return to_json({"by": stop.by, "reason": stop.reason, **micros})


def _stop_from_json(text: str) -> StopMoments:
    stop = _object_from_json(text)
    for name in _MOMENTS:
        if stop[name] is not None or name == "asked_at":
            stop[name] = from_micros(number_from_column(stop[name]))
    _known_text(stop["by"])
    _check(stop["reason"], str)
    return StopMoments(**stop)


def progress_to_json(progress: Progress) -> str:
    """TypeError or ValueError for what would not be read back."""
    return to_json([_quantity(progress.done), _quantity(progress.total), progress.message])


def _progress_from_json(text: str) -> Progress:
    done, total, message = _from_json(list, text)
    _check(message, str)
    return Progress(_quantity(done), _quantity(total), message)


def usage_to_json(usage: Usage) -> str:
    """TypeError or ValueError for what would not be read back."""
    return to_json([_known_quantity(usage.cpu_seconds), _quantity(usage.rss_bytes), _quantity(usage.max_rss_bytes)])


def _usage_from_json(text: str) -> Usage:
    cpu_seconds, *sizes = _from_json(list, text)
    return Usage(_known_quantity(cpu_seconds), *map(_quantity, sizes))


MOMENT_COLUMNS = (
    "at",
    "stored_at",
    "created_at",
    "status_changed_at",
    "due_at",
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
    "updated_at",
)

NUMBER_COLUMNS = (
    "bucket",
    "attempt",
    "max_attempts",
    "priority",
    "unstarted",
    "exit_code",
    "exit_signal",
    "renewals",
    "lock_inode",
    "pid",
    "generation",
    "holds_seen",
)
"""Of those who calculate with them. SQLite keeps other values there, too."""

TO_COLUMN: dict[str, Callable[[Any], Any]] = {
    "tags": set_to_json,
    "flags": set_to_json,
    "failure": _failure_to_json,
    "outcome": to_json,
    "stop": _stop_to_json,
}

FROM_COLUMN: dict[str, Callable[[Any], Any]] = {
    "status": Status,
    "source": Status,
    "target": Status,
    "action": Action,
    "tags": _set_from_json,
    "flags": _set_from_json,
    "failure": _failure_from_json,
    "stop": _stop_from_json,
    "progress": _progress_from_json,
    "usage": _usage_from_json,
    "ended": _attempt_end_from_json,
    "run_timeout": _known_quantity,
    "limits": _limits_from_json,
    "options": _object_from_json,
    **dict.fromkeys(NUMBER_COLUMNS, number_from_column),
    "forced": bool,
    "is_past": bool,
    "is_live": bool,
}

EXPECTED: dict[Callable[[Any], Any], str] = {
    Status: "a state of chong",
    Action: "an action of chong",
    from_micros: "a time in microseconds",
    span_from_micros: "a length of time in microseconds",
    _in_utc: "a time with a zone",
    _as_it_is: "a length of time",
    text_from_column: "text without NUL",
    plain_from_column: "text without NUL",
    number_from_column: "a whole number",
    num_buckets_from_column: f"a whole number of 1 to {MAX_NUM_BUCKETS}",
    _set_from_json: "a JSON list",
    _failure_from_json: "a JSON list of kind, cause, message and traceback, all text; only the last may be null",
    _stop_from_json: "a JSON object with who, why, when it was asked, and three later times in microseconds",
    _progress_from_json: "a JSON list of two numbers of 64 bits and a message",
    _usage_from_json: "a JSON list of the seconds of CPU and two sizes, numbers of 64 bits",
    _attempt_end_from_json: "a JSON object of an attempt's number, exit, failure and use, as far as these are known",
    _known_quantity: "a number of 64 bits",
    _limits_from_json: "a JSON object of whole numbers",
    _object_from_json: "a JSON object",
    json.loads: "JSON",
}
"""What a column holds, by what reads it; for an error's text."""
