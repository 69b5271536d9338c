"""What functions have told of keys: the last good list of each definition, and what is wrong with it now."""

from collections.abc import Callable, Iterable

import structlog

from chong.store.errors import Refused
from chong.supervisor.called_keys import Found, Wanted
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.recurring import Recurring


class ToldKeys:
    """Lives in the loop's thread. `on_change`: something is to be shown or fired anew."""

    def __init__(
        self,
        want: Callable[[Iterable[Wanted]], None],
        on_change: Callable[[], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._want = want
        self._on_change = on_change
        self._log = log
        self._keys: dict[str, tuple[str, ...]] = {}
        self._troubles: dict[str, Recurring] = {}
        self.errors: dict[str, str] = {}
        """By name, of definitions whose last call has failed."""

    def load(self, catalogue: Catalogue) -> Catalogue:
        """New definitions: with the keys of before, until their functions tell others."""
        names = {task.name for task in catalogue.tellers}
        for known in (self._keys, self._troubles, self.errors):
            for name in [name for name in known if name not in names]:
                del known[name]
        self._want(Wanted(task.name, task.module) for task in catalogue.tellers)
        return catalogue.with_keys(self._keys)

    def found(self, wanted: Wanted, found: Found, catalogue: Catalogue | None) -> Catalogue | None:
        """The catalogue with these keys; None when nothing is to be fired otherwise than before."""
        name = wanted.name
        if catalogue is None or name not in {task.name for task in catalogue.tellers}:
            return None
        log = self._log.bind(name=name)
        trouble = self._troubles.setdefault(name, Recurring(log, "keys_not_told", "keys_told", grave=True))
        if found.error:
            trouble.again(Refused(found.error))
            self.errors[name] = self._told(name, found.error)
            self._on_change()
            return None
        trouble.end()
        is_mended, is_new = self.errors.pop(name, None) is not None, self._keys.get(name) != found.keys
        self._keys[name] = found.keys
        if not is_new:
            if is_mended:
                self._on_change()
            return None
        self._on_change()
        return catalogue.with_keys({name: found.keys})

    def _told(self, name: str, error: str) -> str:
        known = self._keys.get(name)
        stays = "nothing is fired until it tells some" if known is None else f"the {len(known)} of before stay"
        return f"keys: {error}; {stays}"
