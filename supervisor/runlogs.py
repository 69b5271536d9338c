"""The logs of the runs that have a process here, each with its bound, and a last look at those that have ended."""

from collections import deque
from pathlib import Path

from chong.supervisor.paths import Paths

ENDED_LOGS = 10_000
"""So many wait for a last look at most; a disk that hangs must not fill the memory."""


class RunLogs:
    """Written in the loop's thread, read by the one that bounds logs.

    A run is here from its start, or from the attach of a former term's, whatever the store says of it or whether it
    answers at all. The log of a run of which no bound is known is left alone: it may be all that tells of it.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._growing: dict[str, int] = {}
        self.ended: deque[tuple[Path, int]] = deque(maxlen=ENDED_LOGS)
        """With their bounds, until somebody has taken them."""

    def begin(self, run: str, most: int) -> None:
        """Its log may have so many bytes."""
        self._growing[run] = most

    def end(self, run: str) -> None:
        """It will not grow any more."""
        most = self._growing.pop(run, None)
        if most is not None:
            self.ended.append((self._paths.log_of(run), most))

    def growing(self) -> dict[Path, int]:
        """Safe to call from other threads."""
        return {self._paths.log_of(run): most for run, most in list(self._growing.items())}
