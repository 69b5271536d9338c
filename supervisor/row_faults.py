"""Rows of the store that this node's looks cannot read wholly, as the log tells them."""

import threading
import time
from collections.abc import Callable

import structlog

from chong.store.errors import UnreadableRow

EVERY_SECONDS = 3600.0
MOST = 100
"""So many are told apart; the log has the first ones, which are mended first."""

BORNE = frozenset(
    [
        "alerts",
        "catalogue",
        "commands",
        "holds",
        "node_buckets",
        "nodes",
        "notes",
        "rebucketings",
        "tasks",
        "transitions",
    ]
)
"""Of these tables a look may go without a row, or a part of it: who concludes from what is not there wants it whole.

Of leases and terms nobody goes without one: by them it is judged who lives.
"""


def bear(fault: UnreadableRow) -> None:
    """Raises it where the row is none that can be done without."""
    if fault.table not in BORNE:
        raise fault


class RowFaults:
    """Tells each fault at once, then once in `EVERY_SECONDS` as long as somebody meets it; for any thread."""

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[str, float] = {}
        self._turn = threading.Lock()

    def tell(self, fault: UnreadableRow) -> None:
        """As `bear`, and says so."""
        bear(fault)
        if self._is_due(str(fault)):
            self._log.error("row_unreadable", error=str(fault))

    def _is_due(self, text: str) -> bool:
        now = self._clock()
        with self._turn:
            if text not in self._told and len(self._told) >= MOST:
                return False
            is_due = now - self._told.get(text, -EVERY_SECONDS) >= EVERY_SECONDS
            if is_due:
                self._told[text] = now
        return is_due
