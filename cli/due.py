"""When a submission is to run, as people say it."""

from datetime import UTC, datetime, timedelta

import click

from chong.cli.screen import remark
from chong.cli.times import stamp


def read_due(text: str) -> datetime:
    """An ISO 8601 time; one without a zone is of this machine's."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        expected = 'an ISO 8601 time like "2030-01-31T18:00" or "2030-01-31T18:00+01:00"'
        raise ValueError(f"expected {expected}, got {text[:40]!r}") from None


def read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text[:40]!r}") from None


def due_of(at: datetime | None, wait_for: float | None, now: datetime) -> datetime | None:
    """None for at once; a time that is past is one, which is said."""
    if at is not None and wait_for is not None:
        raise click.UsageError("expected either --at or --in, got both")
    if at is not None and at <= now:
        remark(f"chong: --at: {stamp(at)} is past: the task runs at once")
        return None
    if wait_for is None:
        return at
    try:
        return now + timedelta(seconds=wait_for) if wait_for else None
    except OverflowError:
        raise click.UsageError(f"--in: expected at most some years, got {wait_for:g} seconds") from None
