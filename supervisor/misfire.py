"""What becomes of instants that came while nobody could fire them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from chong.supervisor.plans import Plan
from chong.worker.schedules import BoundedMoments

LATE = timedelta(seconds=60)
"""An instant that is later than this is missed; a busy node may be late by seconds."""


def to_fire(plan: Plan, instants: Sequence[datetime], now: datetime) -> list[datetime]:
    """Of instants that have come since the last look, oldest first, those that are to be fired."""
    if plan.misfire == "all":
        return list(instants)
    newest = list(instants[-1:])
    return [instant for instant in newest if not is_too_late(plan, instant, now)]


def is_too_late(plan: Plan, instant: datetime, now: datetime) -> bool:
    """Whether this one is not made up for."""
    return plan.misfire == "skip" and now - instant > LATE


def missed(plan: Plan, moments: Iterable[BoundedMoments], last: datetime | None, now: datetime) -> list[datetime]:
    """What is to be made up for, where `last` is the newest instant that anybody has claimed; oldest first.

    A schedule that has never fired has missed nothing. Nor has one whose last instant is none of its own: it has been
    changed since then, and counts as new.
    """
    known = list(moments)
    if last is None or last >= now or plan.misfire == "skip" or not any(each.has(last) for each in known):
        return []
    found = {instant for each in known for instant in each.newest(last, now, plan.most)}
    return sorted(found)[-plan.most :]
