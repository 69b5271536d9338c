"""What a node can be asked for over its control socket: one handler per operation."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from chong.store.errors import ChongError, ConfigurationError
from chong.supervisor.control import Answer, failure

Settled = Callable[[dict[str, Any] | ChongError], None]
"""Told what became of a request: the facts of its answer, or why it was refused."""

Operation = Callable[[dict[str, Any], Settled], None]


class Operations:
    """Called in the loop's thread; an operation may settle its request at once or later."""

    def __init__(self, table: Mapping[str, Operation]) -> None:
        self._table = table

    def request(self, request: dict[str, Any], answer: Answer) -> None:
        """One request of the control socket."""
        settled = partial(_answer, answer)
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


def _answer(answer: Answer, outcome: dict[str, Any] | ChongError) -> None:
    answer(failure(outcome) if isinstance(outcome, ChongError) else {"ok": True, **outcome})
