"""Asks the store what had fired last, so that what was missed since then can be made up for."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from itertools import islice

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import Spot
from chong.supervisor.loop import Loop

BATCH = 5000

Heard = Callable[[Mapping[Spot, datetime], Mapping[Spot, datetime | None]], None]


class CatchingUp:
    """One question is under way at a time. heard: is told since when each spot is known, and what had fired last."""

    def __init__(self, loop: Loop, store: TaskStore, do: Callable[[Callable[[], None]], None], heard: Heard) -> None:
        self._loop = loop
        self._store = store
        self._do = do
        self._heard = heard
        self._since: dict[Spot, datetime] = {}
        self._is_asking = False

    def __contains__(self, spot: Spot) -> bool:
        """Whether it is not known yet what was missed there."""
        return spot in self._since

    def expect(self, spots: list[Spot], now: datetime) -> None:
        """These were not planned before `now`."""
        self._since |= dict.fromkeys(spots, now)

    def turn(self) -> None:
        if self._since and not self._is_asking:
            self._is_asking = True
            self._do(partial(self._ask, list(islice(self._since, BATCH))))

    def _ask(self, spots: list[Spot]) -> None:
        """In the store's thread."""
        found: dict[Spot, datetime] | ChongError
        try:
            found = self._store.last_firings(spots)
        except ConfigurationError:
            raise  # ends the term: no wait cures it
        except ChongError as error:
            found = error
        self._loop.call(partial(self._answered, spots, found))

    def _answered(self, spots: list[Spot], found: dict[Spot, datetime] | ChongError) -> None:
        self._is_asking = False
        if isinstance(found, StoreUnavailable):
            return  # asked again at the next look
        lasts = {} if isinstance(found, ChongError) else found
        since = {spot: self._since.pop(spot) for spot in spots if spot in self._since}
        self._heard(since, {spot: lasts.get(spot) for spot in since})
        self.turn()
