"""What happens to workers whose supervisor is gone: held for a while, then ended by the forkserver's own ladder."""

from enum import Enum, auto
from time import CLOCK_BOOTTIME, clock_gettime

KILL_SHARE = 0.6
"""The part of the ladder after which SIGKILL follows SIGTERM."""
STEP = 0.25


class Act(Enum):
    NOTHING = auto()
    TERM = auto()
    KILL = auto()
    LEAVE = auto()


def boot_time() -> float:
    """Goes on while the machine is suspended, as leases do."""
    return clock_gettime(CLOCK_BOOTTIME)


class Orphanage:
    """Pure: `next(now)` says what is due, each act once."""

    def __init__(self, hold: float, ladder: float) -> None:
        self._moments = ((Act.TERM, hold), (Act.KILL, hold + ladder * KILL_SHARE), (Act.LEAVE, hold + ladder))
        self._since: float | None = None
        self._spent = 0.0
        self._done = 0

    @property
    def is_open(self) -> bool:
        return self._since is not None

    @property
    def on_ladder(self) -> bool:
        return self._done > 0

    def enter(self, now: float) -> None:
        if self._since is None:
            self._since = now - self._spent

    def pause(self, now: float) -> None:
        """A supervisor is there, which may fail yet: the next loss goes on where this one has got to.

        Else starts that fail in a row would hold the workers for ever, and nobody would renew their leases.
        """
        if self._since is not None:
            self._spent = now - self._since
            self._since = None

    def leave(self) -> None:
        """A supervisor serves: the next loss is a new one."""
        self._since, self._spent, self._done = None, 0.0, 0

    def next(self, now: float) -> Act:
        if self._since is None or self._done == len(self._moments):
            return Act.NOTHING
        act, moment = self._moments[self._done]
        if now < self._since + moment:
            return Act.NOTHING
        self._done += 1
        return act
