"""What the store shows of a node's definitions: the newest, tried again until the store has taken it."""

from collections.abc import Callable
from functools import partial

import structlog

from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import CatalogueEntry
from chong.supervisor.loop import Loop, Timer
from chong.supervisor.recurring import Recurring

PUBLISH_AGAIN = 5.0


class Publication:
    """One write is under way at a time, and one at most is to come, however often the definitions change meanwhile.

    compose: what is to be shown now, None when there is nothing yet. do: has a job done in the store's thread.
    """

    def __init__(
        self,
        loop: Loop,
        do: Callable[[Callable[[], None]], None],
        compose: Callable[[], list[CatalogueEntry] | None],
        write: Callable[[list[CatalogueEntry]], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._do = do
        self._compose = compose
        self._write = write
        self._trouble = Recurring(log, "catalogue_not_published", "catalogue_published")
        """Belongs to the store's thread."""
        self._is_under_way = False
        self._is_outdated = False
        """Whether something has changed since the write under way was composed."""
        self._again: Timer | None = None

    def renew(self) -> None:
        """Show what is there now; in the loop's thread."""
        if self._is_under_way:
            self._is_outdated = True
            return
        if self._again is not None:
            self._again.cancel()  # this is its turn
            self._again = None
        shown = self._compose()
        if shown is not None:
            self._is_under_way, self._is_outdated = True, False
            self._do(partial(self._try, shown))

    def _try(self, shown: list[CatalogueEntry]) -> None:
        """In the store's thread."""
        is_away = False
        try:
            self._write(shown)
        except ConfigurationError:
            raise  # ends the term: no wait cures it
        except ChongError as error:
            is_away = isinstance(error, StoreUnavailable)
            self._trouble.again(error)
        else:
            self._trouble.end()
        self._loop.call(partial(self._tried, is_away=is_away))

    def _tried(self, *, is_away: bool) -> None:
        self._is_under_way = False
        if is_away:
            self._again = self._loop.later(PUBLISH_AGAIN, self.renew)
        elif self._is_outdated:
            self.renew()
