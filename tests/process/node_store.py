"""A store that goes away on request, refuses, loses replies, and counts its calls."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from chong.store.contract import Bell, TaskStore
from chong.store.errors import Refused, StoreUnavailable


class Fickle:
    """Passes every call on to `store`.

    is_away: every call fails, and nothing happens. refuses: the names of methods whose every call is refused.
    lose_replies: of those whose every other reply is lost after the call has done its work.
    """

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self.is_away = False
        self.refuses: frozenset[str] = frozenset()
        self.lose_replies: frozenset[str] = frozenset()
        self.calls: Counter[str] = Counter()
        self.failed = 0
        self.lost: Counter[str] = Counter()

    def bell(self, node: str) -> Bell | None:
        """It never fails."""
        return self._store.bell(node)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def call(*args: Any, **facts: Any) -> Any:
            self.calls[name] += 1
            if self.is_away:
                self.failed += 1
                raise StoreUnavailable("store: away, as the test wants it")
            if name in self.refuses:
                raise Refused("store: refused, as the test wants it")
            answer = method(*args, **facts)
            if name in self.lose_replies and self.calls[name] % 2:
                self.lost[name] += 1
                raise StoreUnavailable("store: the reply is lost, as the test wants it")
            return answer

        return call
