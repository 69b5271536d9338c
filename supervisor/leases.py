"""The lease keeper: says "somebody still manages these runs" to the store, whatever the tasks are doing.

It shares no thread, lock, connection, queue or log with anything that handles tasks. It stops when the main loop
has been stuck for longer than a lease, so that a wedged supervisor does not look alive.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from chong.store.contract import TaskStore
from chong.store.errors import StoreError

RETRY_SECONDS = 0.5


class LeaseKeeper:
    """Renews in a thread of its own, by a connection of its own.

    ids: the leased task ids at this moment; loop_turned_at: the monotonic second the main loop last came round.
    on_missing gets ids that had no lease of this term, on_error what the store said; both run in this thread
    and must only hand over.
    """

    def __init__(
        self,
        store: TaskStore,
        term: str,
        *,
        ttl: float,
        every: float,
        ids: Callable[[], tuple[str, ...]],
        loop_turned_at: Callable[[], float],
        on_missing: Callable[[set[str]], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._term = term
        self._ttl = ttl
        self._every = every
        self._ids = ids
        self._loop_turned_at = loop_turned_at
        self._on_missing = on_missing
        self._on_error = on_error
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chong-leases", daemon=True)
        self.renewals = 0
        """Successful renewals so far."""

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            pause = self._every if self._renew() else min(self._every, RETRY_SECONDS)

    def _renew(self) -> bool:
        if time.monotonic() - self._loop_turned_at() > self._ttl:
            return False
        try:
            missing = self._store.renew(self._term, self._ids(), timedelta(seconds=self._ttl))
        except StoreError as error:
            self._on_error(error)
            return False
        self.renewals += 1
        if missing:
            self._on_missing(missing)
        return True
