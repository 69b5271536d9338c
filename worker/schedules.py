"""What a task author writes about when a task shall run, and the plain form in which it travels."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chong.worker.duration import parse_duration

Length = float | str | timedelta
Moment = datetime | str

LEAST_INTERVAL = 1
"""Seconds between two firings of a schedule: each is a row in the store."""
SCHEDULES_LIMIT = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_ZONE = "UTC"


@dataclass(frozen=True, slots=True)
class Every:
    """At each multiple of a length of time since the epoch.

    jitter: each firing is late by up to this, always the same for one task, key and instant. start, end: no instant
    before and after; what has no time zone is in UTC.
    """

    every: Length
    jitter: Length = 0
    start: Moment | None = None
    end: Moment | None = None


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields of cron, or @daily and the like, in the time of `tz`; jitter, start and end as of `Every`.

    What has no time zone among start and end is in the same one.
    """

    text: str
    tz: str = DEFAULT_ZONE
    jitter: Length = 0
    start: Moment | None = None
    end: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One schedule as it was read: `every`, or `cron` in the zone `tz`; times in ISO 8601, lengths in seconds."""

    every: float | None = None
    cron: str | None = None
    tz: str = DEFAULT_ZONE
    jitter: float = 0.0
    start: str | None = None
    end: str | None = None

    @property
    def text(self) -> str:
        """For people."""
        base = f"every {self.every:g} s" if self.every is not None else f"{self.cron}"
        zone = f" {self.tz}" if self.cron is not None and self.tz != DEFAULT_ZONE else ""
        more = [f" {name} {value}" for name, value in (("from", self.start), ("to", self.end)) if value]
        return "".join([base, zone, f" +{self.jitter:g} s" if self.jitter else "", *more])


Written = str | Cron | Every | Iterable[str | Cron | Every]


def read_schedule(value: Written) -> tuple[Timing, ...]:
    """One schedule or several; ValueError says what was expected and what was got."""
    listed = [value] if isinstance(value, str | Cron | Every) else _listed(value)
    if not 1 <= len(listed) <= SCHEDULES_LIMIT:
        raise ValueError(f"expected 1 to {SCHEDULES_LIMIT} schedules, got {len(listed)}")
    return tuple(dict.fromkeys(_timing(each) for each in listed))


def timing_from_json(content: Any) -> Timing:
    """What this version does not know is left out."""
    return Timing(**{name: value for name, value in content.items() if name in Timing.__dataclass_fields__})


def read_interval(value: Length) -> float:
    seconds = parse_duration(value)
    if seconds < LEAST_INTERVAL:
        raise ValueError(f"expected at least {LEAST_INTERVAL}s, got {value!r}")
    return seconds


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, bytes | dict):
        raise ValueError(f"expected a cron text, Cron, Every or a list of these, got {value!r}")
    return list(value)


def _timing(value: Any) -> Timing:
    if isinstance(value, str):
        value = Cron(value)
    if isinstance(value, Every):
        return _of_every(value)
    if isinstance(value, Cron):
        return _of_cron(value)
    raise ValueError(f"expected a cron text, Cron or Every, got {value!r}")


def _of_every(value: Every) -> Timing:
    every = read_interval(value.every)
    start, end = _bounds(value, UTC)
    jitter = _jitter(value.jitter, every)
    return _reachable(Timing(every=every, jitter=jitter, start=start, end=end))


def _of_cron(value: Cron) -> Timing:
    from chong.worker.cron import CronMoments, zone_of  # noqa: PLC0415 - who has no cron does not load it

    moments = CronMoments(value.text, value.tz)
    start, end = _bounds(value, zone_of(value.tz))
    jitter = _jitter(value.jitter, moments.least_gap().total_seconds())
    text = " ".join(value.text.split())
    return _reachable(Timing(cron=text, tz=value.tz, jitter=jitter, start=start, end=end))


def _jitter(value: Length, gap: float) -> float:
    seconds = parse_duration(value)
    if seconds >= gap:
        raise ValueError(f"jitter: expected less than the {gap:g} s between two instants, got {value!r}")
    return seconds


def _bounds(value: Every | Cron, zone: Any) -> tuple[str | None, str | None]:
    start, end = _moment("start", value.start, zone), _moment("end", value.end, zone)
    if start is not None and end is not None and end < start:
        raise ValueError(f"end: expected a time behind the start {start.isoformat()}, got {end.isoformat()}")
    return None if start is None else start.isoformat(), None if end is None else end.isoformat()


def _moment(name: str, value: Moment | None, zone: Any) -> datetime | None:
    if value is None:
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a time such as '2026-03-01 08:00', got {value!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _reachable(timing: Timing) -> Timing:
    if timing.end is not None and moments_of(timing).after(EPOCH) is None:
        raise ValueError(f"expected an instant between start and end, got none for {timing.text}")
    return timing


def moments_of(timing: Timing) -> "BoundedMoments":
    """ValueError when its zone is not known here, or its text is none."""
    return BoundedMoments(timing)


class EveryMoments:
    def __init__(self, every: float) -> None:
        self._every = timedelta(microseconds=round(every * 1_000_000))

    def after(self, moment: datetime) -> datetime | None:
        return EPOCH + ((moment - EPOCH) // self._every + 1) * self._every


class BoundedMoments:
    """The instants of a schedule, within its start and end. Remembers its last answers: many keys ask the same."""

    KEPT = 64

    def __init__(self, timing: Timing) -> None:
        if timing.every is not None:
            self._moments: Any = EveryMoments(timing.every)
        else:
            from chong.worker.cron import CronMoments  # noqa: PLC0415 - who has no cron does not load it

            self._moments = CronMoments(timing.cron or "", timing.tz)
        self._first = None if timing.start is None else datetime.fromisoformat(timing.start) - timedelta(microseconds=1)
        self._last = None if timing.end is None else datetime.fromisoformat(timing.end)
        self._known: dict[datetime, datetime | None] = {}
        self.computed = 0
        """How many instants were computed."""

    def after(self, moment: datetime) -> datetime | None:
        """The first instant after this moment; None when none comes any more."""
        if self._first is not None:
            moment = max(moment, self._first)
        if moment not in self._known:
            if len(self._known) >= self.KEPT:
                del self._known[next(iter(self._known))]
            self.computed += 1
            found = self._moments.after(moment)
            self._known[moment] = None if self._last is not None and found is not None and found > self._last else found
        return self._known[moment]

    def has(self, moment: datetime) -> bool:
        """Whether this is one of its instants."""
        return self.after(moment - timedelta(microseconds=1)) == moment

    def newest(self, after: datetime, now: datetime, limit: int) -> list[datetime]:
        """The last `limit` instants behind `after`, up to `now`; oldest first."""
        span = timedelta(minutes=1)
        while True:
            begin = max(after, now - span) if now - after > timedelta() else after
            found = self._between(begin, now)
            if len(found) >= limit or begin <= after:
                return found[-limit:]
            span *= 8

    def _between(self, after: datetime, now: datetime) -> list[datetime]:
        found = []
        moment = self.after(after)
        while moment is not None and moment <= now:
            found.append(moment)
            moment = self.after(moment)
        return found
