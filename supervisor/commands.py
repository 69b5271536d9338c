"""The command poller: asks the store for what operators want of this node."""

from collections.abc import Callable
from datetime import timedelta

from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreError, UnreadableRow
from chong.store.model import Command, HoldList

CLAIM_SECONDS = 30.0
PAGE = 100
PAGES = 20
"""So many of them in one look, at most."""


class CommandPoller:
    """`poll` is called in a thread of its own; what it is given must only hand over.

    known: the revision of the holds that the node keeps to already.
    """

    def __init__(
        self,
        store: TaskStore,
        node: str,
        term: str,
        *,
        every: float,
        on_commands: Callable[[list[Command]], None],
        known: Callable[[], int | None],
        on_holds: Callable[[HoldList], None],
        on_error: Callable[[Exception], None],
        on_success: Callable[[], None],
        on_unreadable: Callable[[UnreadableRow], None],
    ) -> None:
        self._store = store
        self._node = node
        self._term = term
        self._every = every
        self._on_commands = on_commands
        self._known = known
        self._on_holds = on_holds
        self._on_error = on_error
        self._on_success = on_success
        self._on_unreadable = on_unreadable

    def poll(self) -> float:
        """Claim what there is, and look for changed holds; the seconds until the next time."""
        commands: list[Command] = []
        try:
            # First the holds: a stop that frees a slot lets nothing start that is held by then.
            holds = self._store.changed_holds(self._known())
            if holds is not None:
                self._on_holds(holds)
            self._claim(commands)
        except (StoreError, Refused) as error:
            self._on_error(error)
        else:
            self._on_success()
        if commands:  # those of a look that failed half-way, too: nobody else gets them while they are claimed
            self._on_commands(commands)
        return self._every

    def _claim(self, commands: list[Command]) -> None:
        """Page after page before any is handed over.

        Those for runs of which nobody knows yet are handed back, and are the oldest again in the next look: one page
        would be full of them until the leases have run out.
        """
        for _ in range(PAGES):
            page = self._store.claim_commands(
                self._node,
                self._term,
                lease=timedelta(seconds=CLAIM_SECONDS),
                limit=PAGE,
                on_unreadable=self._on_unreadable,
            )
            commands += page
            if len(page) < PAGE:
                return
