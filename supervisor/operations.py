"""What a node can be asked for over its control socket: one handler per operation."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from chong.store.errors import ChongError, ConfigurationError, Refused
from chong.supervisor.control import Answer, failure

RequestSettled = Callable[[dict[str, Any] | ChongError], None]
"""Told what became of a request: the facts of its answer, or why it was refused."""


class Settled(Protocol):
    """A `RequestSettled` that also tells whether anybody still waits for it."""

    def __call__(self, outcome: dict[str, Any] | ChongError, /) -> None: ...

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Let `callback` hear when whoever asked has gone before the request is settled."""


Operation = Callable[[dict[str, Any], Settled], None]


class Operations:
    """Called in the loop's thread; an operation may settle its request at once or later.

    One that fails is refused: a fault behind one request must not end the runs and requests of everybody else.
    """

    def __init__(self, table: Mapping[str, Operation], log: structlog.typing.FilteringBoundLogger) -> None:
        self._table = table
        self._log = log

    def request(self, request: dict[str, Any], answer: Answer) -> None:
        """One request of the control socket."""
        settled = _Once(answer)
        op = request.pop("op", None)
        operation = self._table.get(op) if isinstance(op, str) else None
        if operation is None:
            known = ", ".join(sorted(self._table))
            settled(ConfigurationError(f"request: expected an op of {known}, got {str(op)[:60]!r}"))
            return
        try:
            operation(request, settled)
        except ChongError as error:
            settled(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to the caller and in the log
            self._log.error("request_failed", op=op, error=repr(error), exc_info=error)
            settled(Refused(f"internal error: {type(error).__name__}; the supervisor's log has more"))


class _Once:
    """Settles a request; what comes after the first word is not said, for each request has one line of answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._is_settled = False

    def on_gone(self, callback: Callable[[], None]) -> None:
        self._answer.on_gone(callback)

    def __call__(self, outcome: dict[str, Any] | ChongError, /) -> None:
        if not self._is_settled:
            self._answer(failure(outcome) if isinstance(outcome, ChongError) else {"ok": True, **outcome})
            self._is_settled = True
