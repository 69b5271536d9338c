"""When a definition crashes too often: so many times in ten minutes."""

from collections import deque

from chong.store.model import FailureKind
from chong.store.states import RUNS, Status
from chong.supervisor.events import SaveState
from chong.supervisor.verdict import ORPHANED

WINDOW = 600.0
"""Seconds."""


class Breaker:
    """Counts crashes by name, whatever succeeds in between: a task that crashes every other time is as broken.

    most: how many within the window are one too many, None when none ever are.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._crashes: dict[str, deque[float]] = {}

    def crashed(self, name: str, clock: float) -> bool:
        """Count a crash at this monotonic second; True when it is one too many, and the count begins anew."""
        if self._most is None:
            return False
        times = self._crashes.setdefault(name, deque(maxlen=self._most))
        times.append(clock)
        if len(times) < self._most or clock - times[0] > WINDOW:
            return False
        del self._crashes[name]
        return True


def crash_of(save: SaveState) -> str | None:
    """The cause when this change is the crash of a run, by itself: not its stop, its time-out or the node's doing."""
    failure = save.snapshot.failure
    ended = any(step.source in RUNS and step.target in (Status.FAILED, Status.RETRYING) for step in save.transitions)
    if not ended or failure is None or failure.kind is not FailureKind.CRASHED or failure.cause == ORPHANED:
        return None
    return failure.cause
