"""The command poller: asks the store for what operators want of this node's tasks."""

from collections.abc import Callable
from datetime import timedelta

from chong.store.contract import TaskStore
from chong.store.errors import StoreError
from chong.store.model import Command

CLAIM_SECONDS = 30.0


class CommandPoller:
    """`poll` is called in a thread of its own; `on_commands` and `on_error` must only hand over."""

    def __init__(
        self,
        store: TaskStore,
        node: str,
        term: str,
        *,
        every: float,
        on_commands: Callable[[list[Command]], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._node = node
        self._term = term
        self._every = every
        self._on_commands = on_commands
        self._on_error = on_error

    def poll(self) -> float:
        """Claim what there is; the seconds until the next time."""
        try:
            commands = self._store.claim_commands(self._node, self._term, lease=timedelta(seconds=CLAIM_SECONDS))
        except StoreError as error:
            self._on_error(error)
            return self._every
        if commands:
            self._on_commands(commands)
        return self._every
