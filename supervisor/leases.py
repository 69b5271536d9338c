"""The lease keeper: says "somebody still manages these runs" to the store, whatever the tasks are doing.

It shares no thread, lock, connection, queue or log with anything that handles tasks. It stops when the main loop
has been stuck for longer than a lease, so that a wedged supervisor does not look alive.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreError
from chong.supervisor.loop import MAX_SLEEP

RETRY_SECONDS = 0.5


class LeaseKeeper:
    """`renew` is called in a thread of its own, in which the store gives it a connection of its own.

    ids: the leased task ids at this moment; loop_turned_at: the monotonic second the main loop last came round.
    on_begin is called before each renewal, which may take as long as somebody's lock; on_missing gets ids that had no
    lease of this term, on_error what the store said, on_success is called when it renewed; all must only hand over.
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
        on_begin: Callable[[], None],
        on_missing: Callable[[set[str]], None],
        on_error: Callable[[Exception], None],
        on_success: Callable[[], None],
    ) -> None:
        self._store = store
        self._term = term
        self._ttl = ttl
        self._every = every
        self._ids = ids
        self._loop_turned_at = loop_turned_at
        self._on_begin = on_begin
        self._on_missing = on_missing
        self._on_error = on_error
        self._on_success = on_success
        self.renewals = 0
        """Successful renewals so far."""

    def renew(self) -> float:
        """Renew once; the seconds until the next time."""
        # An idle loop turns every MAX_SLEEP seconds: with very short leases that must not look like a wedged one.
        if time.monotonic() - self._loop_turned_at() > max(self._ttl, 2 * MAX_SLEEP):
            return min(self._every, RETRY_SECONDS)
        self._on_begin()
        try:
            missing = self._store.renew(self._term, self._ids(), timedelta(seconds=self._ttl))
        except (StoreError, Refused) as error:
            self._on_error(error)
            return min(self._every, RETRY_SECONDS)
        self.renewals += 1
        self._on_success()
        if missing:
            self._on_missing(missing)
        return self._every
