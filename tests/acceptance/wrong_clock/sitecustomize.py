"""Python on a machine whose clock is NODE_CLOCK_AHEAD seconds ahead; runs ask the kernel, and have the right time."""

import datetime as dt
import os
import time
from typing import Any

# Before the clock is changed: it tells times by the class that it finds, and is given the real one.
import psycopg  # noqa: F401

AHEAD = float(os.environ["NODE_CLOCK_AHEAD"])
REAL, seconds, nanoseconds = dt.datetime, time.time, time.time_ns


class Kind(type):
    """What was made by the real class is a moment, too."""

    def __instancecheck__(cls, made: object) -> bool:
        return isinstance(made, REAL)


class Moment(REAL, metaclass=Kind):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return REAL.now(tz) + dt.timedelta(seconds=AHEAD)


dt.datetime = Moment  # type: ignore[misc]
time.time = lambda: seconds() + AHEAD
time.time_ns = lambda: nanoseconds() + round(AHEAD * 1e9)
