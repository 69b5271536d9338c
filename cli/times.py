"""Times and lengths of time, as a person reads them."""

from datetime import UTC, datetime, timedelta

from chong.store.stamp import utc_text

_TENTHS_BELOW = 9.95
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60


def utc_now() -> datetime:
    return datetime.now(UTC)


def span(length: timedelta | float) -> str:
    """The two largest units: "0.4s", "12s", "4m12s", "2h05m", "3d04h"."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    seconds = max(seconds, 0.0)
    if seconds < _TENTHS_BELOW:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.05)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def stamp(moment: datetime | None) -> str | None:
    """UTC to the millisecond."""
    return None if moment is None else utc_text(moment, "milliseconds")


def ago(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{stamp(moment)} ({span(now - moment)} ago)"
