"""Carries the outbox to the store, in a thread of its own: a slow or absent store never stops the main loop."""

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from chong.store.contract import TaskStore
from chong.store.errors import Rebucketed, Refused, StoreUnavailable
from chong.supervisor.loop import Loop
from chong.supervisor.outage import Outage
from chong.supervisor.outbox import Batch, Outbox

RETRY_FIRST = 0.1
RETRY_MOST = 2.0
BEAT_GAP = 0.5
"""Seconds between two writes of heartbeats and progress; between them only each task's newest is kept."""

WRITER = "writer"
"""Its name for the outage."""


class Recipient(Protocol):
    """Who is told what became of the writes, in the loop's thread."""

    def stored(self, task_id: str, version: int) -> None: ...

    def refused(self, task_id: str, error: Exception) -> None: ...

    def unstorable(self, error: Refused) -> None: ...


class Courier:
    """One batch is under way at a time; whatever gathers meanwhile goes with the next one.

    num_buckets: the number that the node counts by.
    """

    def __init__(
        self,
        loop: Loop,
        store: TaskStore,
        term: str,
        outbox: Outbox,
        recipient: Recipient,
        outage: Outage,
        *,
        num_buckets: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._store = store
        self._term = term
        self._outbox = outbox
        self._recipient = recipient
        self._outage = outage
        self._num_buckets = num_buckets
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._busy = False
        self._failures = 0
        self._beats_at = 0.0
        self._beat_due = False
        self._thread = threading.Thread(target=self._work, name="chong-store", daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """Run another store call in the courier's thread; it must hand its result over by itself."""
        self._jobs.put(job)

    def turn(self) -> None:
        """Send what has gathered, unless a batch is under way or the store is given time to come back."""
        if self._busy or not self._outbox:
            return
        beats = time.monotonic() - self._beats_at >= BEAT_GAP
        if not beats and not len(self._outbox):
            self._wait_for_beats()
            return
        if beats:
            self._beats_at = time.monotonic()
        self._busy = True
        self._jobs.put(partial(self._write, self._outbox.take(beats=beats)))

    def close(self, timeout: float) -> None:
        self._jobs.put(None)
        self._thread.join(timeout)

    def _wait_for_beats(self) -> None:
        if not self._beat_due:
            self._beat_due = True
            self._loop.later(BEAT_GAP, self._beats_due)

    def _beats_due(self) -> None:
        self._beat_due = False

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - whatever it is, nothing would ever be stored again
                self._loop.fail(error)
                return

    def _write(self, batch: Batch) -> None:
        """A save that ends a run comes after what belongs to its end: whoever sees the end finds the rest in place.

        And it takes the lease with it, to which the beats are written.
        """
        try:
            if batch.beats:
                self._attempt(partial(self._store.touch, self._term, batch.beats))
            if batch.notes:
                self._attempt(partial(self._store.append, batch.notes))
            if batch.saves:
                batch.verdicts = self._store.save_many(batch.saves, num_buckets=self._num_buckets())
            for verdict in batch.verdicts:
                # Nobody may count by the old number. What is not stored stays in the node's state directory, and the
                # next term computes its bucket anew.
                if isinstance(verdict, Rebucketed):
                    raise verdict
            for end in batch.completions:
                self._attempt(partial(self._store.complete_command, end.command_id, end.outcome, end.detail))
        except StoreUnavailable as outage:
            self._loop.call(partial(self._unwritten, batch, outage))
        else:
            self._loop.call(partial(self._written, batch))

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Refused as error:  # a value that no store takes: the rest must not wait behind it
            self._loop.call(partial(self._recipient.unstorable, error))

    def _written(self, batch: Batch) -> None:
        self._busy = False
        self._failures = 0
        self._outage.answered(WRITER)
        self._outbox.settle(batch)
        for save, verdict in zip(batch.saves, batch.verdicts, strict=True):
            if verdict is None:
                self._recipient.stored(save.snapshot.id, save.snapshot.version)
            else:
                self._recipient.refused(save.snapshot.id, verdict)

    def _unwritten(self, batch: Batch, outage: StoreUnavailable) -> None:
        self._outbox.put_back(batch)
        self._failures += 1
        self._outage.failed(WRITER, outage)
        self._loop.later(min(RETRY_MOST, RETRY_FIRST * 2.0 ** min(self._failures - 1, 10)), self._try_again)

    def _try_again(self) -> None:
        self._busy = False
