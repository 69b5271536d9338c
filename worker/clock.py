"""Clocks that a task cannot turn: libraries which freeze or move time for tests replace Python's, here and in C."""

import ctypes
from time import CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_clock_gettime = ctypes.CDLL(None).clock_gettime


def monotonic() -> float:
    """Seconds, as `time.monotonic`. A function of its own: those libraries look for the known ones in all modules."""
    return clock_gettime(CLOCK_MONOTONIC)


def time() -> float:
    """Seconds since the epoch, past `time.time` and `time.clock_gettime`, which both are replaced."""
    found = _Timespec()
    _clock_gettime(CLOCK_REALTIME, ctypes.byref(found))
    return float(found.seconds + found.nanoseconds * 1e-9)
