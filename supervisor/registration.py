"""What the store knows of this life of the node: its term, its buckets, and which generation of modules is live."""

from dataclasses import replace
from functools import partial

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import NodeRecord, TermRecord
from chong.supervisor.courier import Courier
from chong.supervisor.loop import Loop
from chong.supervisor.namesake import refuse_namesake
from chong.supervisor.recurring import Recurring

REGISTER_AGAIN = 5.0


class Registration:
    """Writes the node's row anew when a generation goes live.

    Not before `begin`: the first contact with the store finds out whether another living node has our name, whose row
    must not be overwritten. It is looked for each time, as one may have come while this node was cut off.
    """

    def __init__(
        self,
        loop: Loop,
        store: TaskStore,
        courier: Courier,
        records: tuple[TermRecord, NodeRecord],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._store = store
        self._courier = courier
        self._term, self._node = records
        self._trouble = Recurring(log, "node_not_registered", "node_registered")
        """Belongs to the store's thread, too."""
        self._has_begun = False
        self._declared: frozenset[int] | None = None
        self.is_known = False
        """Whether the store has the term, and was not told its end; the store's thread writes it."""

    def know(self, is_known: bool) -> None:
        """What the first contact has come to, whatever becomes of the rest of it; in the store's thread."""
        self.is_known = is_known

    def begin(self, declared: frozenset[int] | None) -> None:
        """The first contact has registered the term and its buckets; whatever is known since then follows."""
        self._has_begun = True
        self._declared = declared
        if self._node.generation:
            self._register(self._node)

    def again(self) -> None:
        """The store has lost us: say everything once more."""
        self._register(self._node, declares=True)

    def end(self) -> None:
        """The supervisor ends as it was asked to, and says so: nobody has to wait until its silence is long enough."""
        self._courier.do(self._write_end)

    def _write_end(self) -> None:
        """In the store's thread; the loop has ended. A first contact that was under way is over, taken in or not."""
        if not self.is_known:
            return
        try:
            self._store.end_term(self._term.term)
        except ChongError as error:
            self._trouble.again(error)

    def show(self, generation: int) -> None:
        """Let the store know that this generation is live."""
        self._node = replace(self._node, generation=generation)
        if self._has_begun:
            self._register(self._node)

    def _register(self, node: NodeRecord, *, declares: bool = False) -> None:
        if node is self._node or declares:  # a newer one goes its own way
            self._courier.do(partial(self._write, self._node, declares=declares))

    def _write(self, node: NodeRecord, *, declares: bool) -> None:
        """In the store's thread."""
        try:
            refuse_namesake(self._store, node.node, node.node_id)
            self._store.register_term(self._term, node)
            if declares:
                self._store.declare_buckets(node.node, self._declared)
        except ConfigurationError:
            raise  # ends the term: while it was cut off, a namesake has come
        except ChongError as error:
            self._trouble.again(error)
            if isinstance(error, StoreUnavailable):
                again = partial(self._register, node, declares=declares)
                self._loop.call(partial(self._loop.later, REGISTER_AGAIN, again))
        else:
            self._trouble.end()
