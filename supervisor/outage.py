"""Whether the store is away, as all of a node know it: who writes to it, renews leases, or looks for commands."""

from collections.abc import Callable

from chong.store.errors import StoreUnavailable


class Outage:
    """Begins with the first who gets no answer, and is over when each who got none has one: so it does not flicker.

    Lives in the loop's thread.
    """

    def __init__(self, on_begin: Callable[[StoreUnavailable], None], on_end: Callable[[], None]) -> None:
        self._on_begin = on_begin
        self._on_end = on_end
        self._without_answer: set[str] = set()

    @property
    def is_on(self) -> bool:
        return bool(self._without_answer)

    def failed(self, who: str, error: Exception) -> None:
        """Errors with which the store has answered are none of its business."""
        if not isinstance(error, StoreUnavailable):
            self.answered(who)
            return
        is_first = not self.is_on
        self._without_answer.add(who)
        if is_first:
            self._on_begin(error)

    def answered(self, who: str) -> None:
        if who in self._without_answer:
            self._without_answer.remove(who)
            if not self.is_on:
                self._on_end()
