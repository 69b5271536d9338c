"""A trouble that comes again and again, as the log tells it: at once, then thinned, and when it is over."""

import time
from collections.abc import Callable

import structlog

EVERY_SECONDS = 60.0


class Recurring:
    """Says `event` the first time, then once in `EVERY_SECONDS` with how often it came so far, and `over` at its end.

    For one thread. grave: an error, not a warning. clock: monotonic seconds. concerns_many: it may go well with one
    subject and badly with the next, so it is over when it went well and nothing was wrong for `EVERY_SECONDS`.
    """

    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        event: str,
        over: str,
        *,
        grave: bool = False,
        concerns_many: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._say = log.error if grave else log.warning
        self.event = event
        self._over = over
        self._quiet_seconds = EVERY_SECONDS if concerns_many else 0.0
        self._clock = clock
        self._times = 0
        self._said_at = 0.0
        self._came_at = 0.0

    def again(self, error: Exception, **facts: object) -> None:
        """`facts`: what is special about this time."""
        self._times += 1
        now = self._came_at = self._clock()
        if self._times > 1 and now - self._said_at < EVERY_SECONDS:
            return
        self._said_at = now
        self._say(self.event, **facts, error=str(error), times=self._times)

    def end(self, **facts: object) -> None:
        """It went well; says nothing where nothing was wrong, or where something is too fresh to be over."""
        if self._times and self._clock() - self._came_at >= self._quiet_seconds:
            self._log.info(self._over, **facts, times=self._times)
            self._times = 0
