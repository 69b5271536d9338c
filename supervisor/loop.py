"""The supervisor's one event loop: descriptors, timers, and calls from other threads.

Edge-triggered, which asyncio is not: frames that were peeked at stay in their socket until what they say is
stored, and a level-triggered loop would spin on them. A callback therefore reads until the kernel says EAGAIN.
"""

import heapq
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

Callback = Callable[[], object]

SWEEP_FIRST = 1000
"""So many timers are kept before cancelled ones are looked for."""

MAX_SLEEP = 1.0
"""The loop turns at least this often, so that its beat shows a wedged callback."""


class Timer:
    """A callback that is due at `when` on the monotonic clock, unless cancelled."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callback) -> None:
        self.when = when
        self.callback: Callback | None = callback

    @property
    def cancelled(self) -> bool:
        return self.callback is None

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks in one thread, one after the other; a callback that raises ends the loop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN | select.EPOLLET)
        self._watched: dict[int, Callback] = {self._wake: self._drain_wake}
        self._calls: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._sweep_at = SWEEP_FIRST
        self._ended = False
        self._closed = threading.Lock()
        self.turned_at = time.monotonic()
        """When the loop last came round; others judge by it whether the loop is stuck."""

    def call(self, callback: Callback) -> None:
        """Run `callback` in the loop's thread soon; the one method that other threads may use."""
        self._calls.append(callback)
        with self._closed:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def fail(self, error: BaseException) -> None:
        """End the loop with an error that another thread met; any thread may call this."""

        def raise_it() -> None:
            raise error

        self.call(raise_it)

    def later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        if len(self._timers) > self._sweep_at:
            self._sweep()
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    def watch(self, descriptor: int, callback: Callback, *, write: bool = False) -> None:
        """Call back whenever the descriptor becomes readable (or writable), also if it is so already."""
        events = select.EPOLLET | select.EPOLLIN | (select.EPOLLOUT if write else 0)
        if descriptor in self._watched:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
        self._watched[descriptor] = callback

    def forget(self, descriptor: int) -> None:
        """Stop watching; do this before closing the descriptor, its number is reused."""
        if self._watched.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def run(self, turn: Callback) -> None:
        """Run until `end`; `turn` is called after each round of callbacks."""
        while not self._ended:
            self._run_ready(self._epoll.poll(self._timeout()))
            self._run_timers()
            turn()
            self.turned_at = time.monotonic()

    def end(self) -> None:
        self._ended = True

    def close(self) -> None:
        with self._closed:
            os.close(self._wake)
            self._wake = -1
        self._epoll.close()

    def _timeout(self) -> float:
        if self._calls:
            return 0
        if not self._timers:
            return MAX_SLEEP
        return min(MAX_SLEEP, max(0.0, self._timers[0][0] - time.monotonic()))

    def _run_ready(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, _ in ready:
            callback = self._watched.get(descriptor)
            if callback is not None:  # an earlier callback of this round may have forgotten it
                callback()
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()

    def _sweep(self) -> None:
        """Most timers are cancelled long before they are due; they must not gather until then."""
        self._timers = [entry for entry in self._timers if not entry[2].cancelled]
        heapq.heapify(self._timers)
        self._sweep_at = max(SWEEP_FIRST, 2 * len(self._timers))

    def _drain_wake(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
