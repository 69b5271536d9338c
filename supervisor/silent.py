"""Former terms' forkservers that live and do not answer. One that can still act goes by its own hold time, and leaves
remains; one that cannot, because it is stopped or stuck, would keep its workers alive for ever.
"""

import time
from collections.abc import Callable

from chong.supervisor.forkservers import still_locked
from chong.supervisor.paths import Paths
from chong.supervisor.recurring import Recurring
from chong.supervisor.survivors import end_writers

LOOK = 0.5


class SilentForkservers:
    """Kills those of `numbers` that have not gone after `seconds`, which is what their own hold and ladder take.

    With a forkserver goes the last end of its workers' leash, so the kernel ends them: before a judge may call their
    runs `lost`, as leases are longer.

    trouble: that there is no looking, for want of a descriptor for instance; of the thread that looks.
    """

    def __init__(
        self,
        paths: Paths,
        numbers: frozenset[int],
        seconds: float,
        *,
        on_stuck: Callable[[int, float], None],
        trouble: Recurring,
    ) -> None:
        self._paths = paths
        self._numbers = numbers
        self._seconds = seconds
        self._on_stuck = on_stuck
        self._trouble = trouble
        self._until = time.monotonic() + seconds
        self._told: set[int] = set()

    def look(self) -> float:
        """Seconds until the next look. In a thread of its own: it reads all of /proc, and waits for no store."""
        try:
            self._look()
        except OSError as error:  # no descriptor to look with, for instance: the next look may have one
            self._trouble.again(error)
        else:
            self._trouble.end()
        return LOOK

    def _look(self) -> None:
        self._numbers = still_locked(self._paths, self._numbers)
        if time.monotonic() >= self._until:
            for number in sorted(self._numbers):
                self._end(number)

    def _end(self, number: int) -> None:
        """Again at each look: the kernel may hold it for a while."""
        if end_writers([self._paths.generation_lock(number)]) and number not in self._told:  # nobody else writes it
            self._told.add(number)
            self._on_stuck(number, self._seconds)
