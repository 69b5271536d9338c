"""A moment as people read it, on whichever page, line or table: always in UTC, and always in one form."""

from datetime import UTC, datetime


def utc_text(moment: datetime, precision: str = "seconds") -> str:
    """Such as "2026-03-01 12:00:00Z"; `precision` as `datetime.isoformat` names it."""
    return moment.astimezone(UTC).isoformat(sep=" ", timespec=precision).replace("+00:00", "Z")
