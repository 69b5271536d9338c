"""What planning costs: a hundred thousand schedule entries through an hour, look by look."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from figure import Figure

from chong.supervisor.plans import Plan
from chong.supervisor.schedule import Schedule
from chong.worker.schedules import Timing

NAMES, KEYS, FEW = 1000, 100, 10
LOOKS = 3600
BEGIN = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC")


def schedule_rest() -> Iterable[Figure]:
    """What one look a second takes of a second, beside that with a hundredth of the entries."""
    few, many = (_share(names) for names in (FEW, NAMES))
    yield Figure("schedule_rest", 1e6 * many, "µs of CPU a second", many / few, "a hundredth of the entries")


def _share(names: int) -> float:
    """Each entry has a time of its own, by its jitter, so that nothing falls together; each fires once a day."""
    schedule = Schedule()
    keys = tuple(f"key-{number}" for number in range(KEYS))
    plans = [
        Plan(
            f"task-{number}",
            (Timing(cron=f"{number % 60} {number % 24} * * *", tz=ZONES[number % len(ZONES)], jitter=3600.0),),
            keys,
        )
        for number in range(names)
    ]
    schedule.replace(plans, BEGIN)
    began = time.process_time()
    for look in range(LOOKS):
        schedule.due(BEGIN + timedelta(seconds=look))
        schedule.seconds_to_next(BEGIN + timedelta(seconds=look))
    return (time.process_time() - began) / LOOKS
