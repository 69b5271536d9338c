"""What calls to the store come to: told in the log, once for each kind of trouble, and to the node's outage."""

import time
from functools import partial

from chong.store.errors import StoreUnavailable
from chong.supervisor.loop import Loop, Timer
from chong.supervisor.outage import Outage
from chong.supervisor.recurring import Recurring


class Contact:
    """What came of each call of a ticker to the store, handed over to the loop's thread."""

    def __init__(self, loop: Loop, outage: Outage, trouble: Recurring) -> None:
        self._loop = loop
        self._outage = outage
        self._trouble = trouble

    def failed(self, error: Exception) -> None:
        self._loop.call(partial(self._take, error))

    def succeeded(self) -> None:
        self._loop.call(partial(self._take, None))

    def _take(self, error: Exception | None) -> None:
        if error is None:
            self._trouble.end(**self._facts())
            self._outage.answered(self._trouble.event)
        else:
            self._trouble.again(error)
            self._outage.failed(self._trouble.event, error)

    def _facts(self) -> dict[str, object]:
        """What is special about a call that went well."""
        return {}


class Renewals(Contact):
    """A renewal that has had no answer when the next one is due is told: somebody's lock may keep it until it fails.

    That is no outage, for everybody else may have answers.
    """

    def __init__(self, loop: Loop, outage: Outage, trouble: Recurring, *, every: float) -> None:
        super().__init__(loop, outage, trouble)
        self._every = every
        self._began_at = 0.0
        self._late: Timer | None = None

    def began(self) -> None:
        self._loop.call(partial(self._watch, time.monotonic()))

    def _watch(self, began_at: float) -> None:
        self._began_at = began_at
        self._late = self._loop.later(self._every, self._tell_late)

    def _tell_late(self) -> None:
        self._trouble.again(StoreUnavailable(f"a renewal has had no answer for {self._waited():g} s"))
        self._late = self._loop.later(self._every, self._tell_late)

    def _take(self, error: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        super()._take(error)

    def _facts(self) -> dict[str, object]:
        return {"seconds": self._waited()}

    def _waited(self) -> float:
        return round(time.monotonic() - self._began_at, 1)
