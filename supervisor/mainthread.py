"""The thread in which everything about tasks happens, as others see it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import structlog

from chong.store.errors import ConfigurationError
from chong.supervisor.loop import Callback, Loop

CALL_SECONDS = 10.0
LOOK = 0.02

T = TypeVar("T")


class MainThread:
    """Runs `loop`, and `turn` after each of its rounds; `on_fault` hears in that thread why it ended.

    fault: what the term failed of, whoever found it; the first one stands.
    """

    def __init__(
        self,
        loop: Loop,
        turn: Callback,
        on_fault: Callable[[BaseException], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.fault: BaseException | None = None
        self._loop = loop
        self._turn = turn
        self._on_fault = on_fault
        self._log = log
        self._thread = threading.Thread(target=self._run, name="chong-main", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def fail(self, error: BaseException) -> None:
        self.fault = self.fault or error

    def call(self, function: Callable[[], T]) -> T:
        """Run a function there, here when it is not running."""
        if not self._thread.is_alive():
            return function()
        answer: Future[T] = Future()
        self._loop.call(partial(_settle, answer, function))
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                return answer.result(LOOK)
            except TimeoutError:
                if not self._thread.is_alive() or time.monotonic() > deadline:
                    raise self.fault or TimeoutError("the main loop does not answer") from None

    def wait_until(self, condition: Callable[[], bool], until: Callable[[], float]) -> None:
        """Until a condition holds there, or the monotonic second that `until` says at each look; raises the fault."""
        while not self.call(condition) and time.monotonic() < until():
            if self.fault is not None:
                raise self.fault  # nothing that is waited for would ever come
            time.sleep(LOOK)

    def end(self, patience: Callable[[], float]) -> None:
        """Tell it to end, and wait for so many seconds, asked for only then."""
        self._loop.call(self._loop.end)
        if self._thread.ident is not None:
            self._thread.join(patience())

    def _run(self) -> None:
        try:
            self._loop.run(self._turn)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the term must end and say so
            self.fault = error
            if isinstance(error, ConfigurationError):  # what somebody has changed, and no error of chong
                self._log.error("term_refused", error=str(error))
            else:
                self._log.critical("main_loop_failed", error=repr(error), exc_info=error)
            self._on_fault(error)


def _settle(answer: Future[T], function: Callable[[], T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as error:
        answer.set_exception(error)
        raise
