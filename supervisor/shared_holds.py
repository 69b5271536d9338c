"""The holds in the store as this node keeps to them, and its word to the store that it does."""

from collections.abc import Callable
from functools import partial

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import StoreError
from chong.store.model import HoldList
from chong.supervisor.courier import Courier
from chong.supervisor.gatekeeper import Gatekeeper
from chong.supervisor.loop import Loop
from chong.supervisor.namesake import is_registered
from chong.supervisor.rebucketed import refuse_rebucketed
from chong.supervisor.recurring import Recurring


class SharedHolds:
    """Lives in the loop's thread. `seen` is the revision that the store knows we keep to, None before the first.

    As long as the store has not taken our word, the next poll finds the same holds again, and says it once more.
    `on_forgotten` is called when the store does not know the node any more. Who changes the number of buckets, and a
    namesake that registers, raises the revision too: a supervisor that was cut off meanwhile and counts by the old
    number (`num_buckets`), or whose name another one has taken, ends.
    """

    def __init__(
        self,
        loop: Loop,
        store: TaskStore,
        courier: Courier,
        gatekeeper: Gatekeeper,
        *,
        node: str,
        term: str,
        num_buckets: Callable[[], int],
        on_forgotten: Callable[[], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.seen: int | None = None
        self._loop = loop
        self._store = store
        self._courier = courier
        self._gatekeeper = gatekeeper
        self._node = node
        self._term = term
        self._num_buckets = num_buckets
        self._on_forgotten = on_forgotten
        self._log = log
        self._trouble = Recurring(log, "holds_not_acknowledged", "holds_acknowledged")
        """Belongs to the store's thread."""

    def take(self, found: HoldList) -> None:
        """Shut and open what they say, and then say so."""
        self._gatekeeper.go_by(found.holds)
        self._courier.do(partial(self._acknowledge, found.revision))

    def _acknowledge(self, revision: int) -> None:
        """In the store's thread."""
        try:
            refuse_rebucketed(self._store, self._num_buckets())
            is_known = self._store.acknowledge_holds(self._term, revision)
            is_forgotten = not is_known and not is_registered(self._store, self._node, self._term)
        except StoreError as error:
            self._trouble.again(error)
        else:
            self._trouble.end()
            self._loop.call(partial(self._acknowledged, revision, is_forgotten=is_forgotten))

    def _acknowledged(self, revision: int, *, is_forgotten: bool) -> None:
        if is_forgotten:
            self._log.error("node_forgotten")
            self._on_forgotten()
        else:
            self.seen = revision
