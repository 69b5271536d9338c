"""When a definition crashes too often: five times in ten minutes."""

from collections import deque

from chong.store.model import FailureKind
from chong.store.states import RUNS, Status
from chong.supervisor.events import SaveState

CRASHES = 5
WINDOW = 600.0
"""Seconds."""
ORPHANED = "orphaned"
"""The cause of an end that the node brought about itself, because no supervisor came."""


class Breaker:
    """Counts crashes by name, whatever succeeds in between: a task that crashes every other time is as broken."""

    def __init__(self) -> None:
        self._crashes: dict[str, deque[float]] = {}

    def crashed(self, name: str, clock: float) -> bool:
        """Count a crash at this monotonic second; True when it is one too many, and the count begins anew."""
        times = self._crashes.setdefault(name, deque(maxlen=CRASHES))
        times.append(clock)
        if len(times) < CRASHES or clock - times[0] > WINDOW:
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
