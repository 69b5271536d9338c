"""Tasks that were submitted for later: each waits for its moment by the node's clock, one timer for all of them."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime

from chong.supervisor.loop import Loop, Timer

LOOK_SECONDS = 30.0
"""Between two looks at the most: the clock may be set, and a machine be asleep, while a timer runs on."""
SWEEP_FROM = 100


def now_by_clock() -> datetime:
    return datetime.now(UTC)


class WaitingRoom:
    """Lives in the loop's thread. What is due leaves by itself, and `on_due` is told; nobody in here holds a slot."""

    def __init__(self, loop: Loop, on_due: Callable[[str], None], clock: Callable[[], datetime] = now_by_clock) -> None:
        self._loop = loop
        self._on_due = on_due
        self._clock = clock
        self._waiting: dict[str, datetime] = {}
        self._order: list[tuple[datetime, str]] = []
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def holds_back(self, task_id: str, due: datetime | None) -> bool:
        """Let a task wait until then; False when that is past, so that it waits for nothing here."""
        if due is None or due <= self._clock():
            self.drop(task_id)
            return False
        if self._waiting.get(task_id) != due:
            if len(self._order) > 2 * len(self._waiting) + SWEEP_FROM:
                self._sweep()
            self._waiting[task_id] = due
            heapq.heappush(self._order, (due, task_id))
            if self._order[0] == (due, task_id):
                self._set_timer()
        return True

    def drop(self, task_id: str) -> None:
        """It does not wait here any more, if it did."""
        self._waiting.pop(task_id, None)

    def _look(self) -> None:
        now = self._clock()
        while self._order and (self._order[0][0] <= now or not self._is_waiting(*self._order[0])):
            due, task_id = heapq.heappop(self._order)
            if self._is_waiting(due, task_id):
                del self._waiting[task_id]
                self._on_due(task_id)
        self._set_timer()

    def _sweep(self) -> None:
        """What was dropped long before its time must not gather until then."""
        self._order = [entry for entry in self._order if self._is_waiting(*entry)]
        heapq.heapify(self._order)

    def _is_waiting(self, due: datetime, task_id: str) -> bool:
        return self._waiting.get(task_id) == due

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            left = (self._order[0][0] - self._clock()).total_seconds()
            self._timer = self._loop.later(min(LOOK_SECONDS, max(0.0, left)), self._look)
