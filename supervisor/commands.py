"""The command poller: asks the store for what operators want of this node's tasks."""

import threading
from collections.abc import Callable
from datetime import timedelta

from chong.store.contract import TaskStore
from chong.store.errors import StoreError
from chong.store.model import Command

CLAIM_SECONDS = 30.0


class CommandPoller:
    """Polls in a thread of its own; `on_commands` and `on_error` run there and must only hand over."""

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
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chong-commands", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            self._poll()
            pause = self._every

    def _poll(self) -> None:
        try:
            commands = self._store.claim_commands(self._node, self._term, lease=timedelta(seconds=CLAIM_SECONDS))
        except StoreError as error:
            self._on_error(error)
            return
        if commands:
            self._on_commands(commands)
