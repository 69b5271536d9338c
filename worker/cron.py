"""When a cron text comes, in the time of a zone.

The library says which readings of a clock on the wall match. What a zone does to them is decided here, as Debian's cron
does it. A text of fixed times, with neither minute nor hour beginning with `*`, runs once for each reading: what the
zone leaves out runs right after the gap, what it repeats runs the first time only. Every other text goes by the time
that really passes: it runs at each moment whose reading matches.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from chong.worker.nearest import nearest

TEXT_LIMIT = 200
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = 5
DAY = timedelta(days=1)
LAST_YEAR = 9999
"""It is not planned any more: in another zone its end would lie behind all years."""
SECOND = timedelta(seconds=1)
_LOOKED_AT = 50
"""So many instants tell how close they come to each other."""
_ANY_TIME = datetime(2023, 12, 31, 23, 59)  # noqa: DTZ001 - a reading of a clock


class Moments(Protocol):
    """The instants of one schedule: aware, in UTC, strictly rising."""

    def after(self, moment: datetime) -> datetime | None:
        """The first one after this moment; None when none comes any more."""


class CronMoments:
    """ValueError for a text that is none, that never comes, or a zone that is not known."""

    def __init__(self, text: str, zone: str) -> None:
        self._text = _spelled_out(text)
        self._zone = zone_of(zone)
        minute, hour, *_ = self._text.split()
        self._is_fixed = not (minute.startswith("*") or hour.startswith("*"))
        if next(self._readings(_ANY_TIME), None) is None:
            raise ValueError(f"expected a time that comes, got {text!r}, which never does")

    def after(self, moment: datetime) -> datetime | None:
        begin = moment.astimezone(self._zone)
        # Within a day before the clock is set back a reading that is over comes once more.
        repeated = (begin.utcoffset() or timedelta()) - (
            (moment + DAY).astimezone(self._zone).utcoffset() or timedelta()
        )
        best: datetime | None = None
        for reading in self._readings(begin.replace(tzinfo=None) - max(timedelta(), repeated)):
            found = self._instants(reading)
            if best is not None and found and found[0] >= best:
                break
            later = [each for each in found if each > moment]
            if later:
                best = later[0] if best is None else min(best, later[0])
                if self._is_fixed or not repeated:
                    break
        return best

    def least_gap(self) -> timedelta:
        """How close two readings come to each other."""
        readings = [reading for reading, _ in zip(self._readings(_ANY_TIME), range(_LOOKED_AT), strict=False)]
        return min((later - earlier for earlier, later in pairwise(readings)), default=DAY)

    def _readings(self, after: datetime) -> Iterator[datetime]:
        """What a clock on the wall shows when the text matches; all of them come within the library's fifty years."""
        try:
            yield from takewhile(lambda reading: reading.year < LAST_YEAR, CronSim(self._text, after))
        except CronSimError as error:
            if "day-of-month" not in str(error):
                raise
        except OverflowError:
            return  # behind the last year that there is

    def _instants(self, reading: datetime) -> list[datetime]:
        first, second = (reading.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first == second:
            return [first]
        if first < second:
            return [first] if self._is_fixed else [first, second]
        return [self._end_of_gap(second, first)] if self._is_fixed else []

    def _end_of_gap(self, before: datetime, behind: datetime) -> datetime:
        """The second in which the offset changes, between two moments on its both sides."""
        new = behind.astimezone(self._zone).utcoffset()
        while behind - before > SECOND:
            middle = before + (behind - before) // SECOND // 2 * SECOND
            if middle.astimezone(self._zone).utcoffset() == new:
                behind = middle
            else:
                before = middle
        return behind


def zone_of(name: str) -> ZoneInfo:
    """A time zone of the system's; ValueError names the nearest one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        pass
    known = available_timezones()
    if not known:
        raise ValueError(f"expected time zones on this machine, got none for {name!r}: install tzdata")
    near = nearest(str(name), sorted(known))
    hint = f", did you mean {near!r}?" if near else ""
    raise ValueError(f"expected a time zone such as 'Europe/Berlin', got {str(name)[:60]!r}{hint}")


def _spelled_out(text: str) -> str:
    """Five fields; the library's sixth one, of seconds, is none of cron's."""
    if not isinstance(text, str) or len(text) > TEXT_LIMIT:
        raise ValueError(f"expected at most {TEXT_LIMIT} characters of cron, got {str(text)[:60]!r}")
    whole = text.strip().lower()
    if whole.startswith("@"):
        if whole not in ALIASES:
            near = nearest(whole, ALIASES)
            raise ValueError(
                f"expected one of {', '.join(ALIASES)}, got {text!r}{f', did you mean {near}?' if near else ''}"
            )
        return ALIASES[whole]
    try:
        if len(text.split()) != FIELDS:
            raise CronSimError(f"{len(text.split())} fields")
        CronSim(text, _ANY_TIME)
    except (CronSimError, ValueError, AssertionError) as error:
        if str(error) == "Bad day-of-month" and _is_only_too_late(text):
            raise ValueError(f"expected a time that comes, got {text!r}, which never does") from None
        fault = str(error).replace("Bad ", "a bad ") or "what it cannot read"
        raise ValueError(
            f"expected minute, hour, day, month and weekday like '0 3 * * *', got {text!r}: {fault}"
        ) from None
    return text.strip()


def _is_only_too_late(text: str) -> bool:
    """Whether the day is one that other months have: the library gives both the same name."""
    fields = text.split()
    try:
        CronSim(" ".join([*fields[:3], "*", fields[4]]), _ANY_TIME)
    except (CronSimError, ValueError, AssertionError):
        return False
    return True
