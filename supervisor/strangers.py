"""Requests for tasks that are not in this node's hands: ended, or somebody else's by now."""

from collections.abc import Callable
from functools import partial

from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreError
from chong.store.model import Command
from chong.supervisor.loop import Loop
from chong.supervisor.recurring import Recurring


class Strangers:
    """Lives in the loop's thread. One is answered at a time: what the node has to store meanwhile goes in between.

    There may be thousands of them, in each look anew, until the leases of runs that nobody knows of are over.
    do: has something done in the store's thread, in turn. trouble: belongs to that thread.
    """

    def __init__(
        self, loop: Loop, do: Callable[[Callable[[], None]], None], store: TaskStore, term: str, trouble: Recurring
    ) -> None:
        self._loop = loop
        self._do = do
        self._store = store
        self._term = term
        self._trouble = trouble
        self._waiting: dict[str, Command] = {}
        self._is_answering = False

    def take(self, command: Command) -> None:
        """Once only, though its claim may run out and be given anew while it waits."""
        self._waiting.setdefault(command.id, command)
        if not self._is_answering:
            self._next()

    def _next(self) -> None:
        self._is_answering = bool(self._waiting)
        if self._waiting:
            self._do(partial(self._answer, self._waiting.pop(next(iter(self._waiting)))))

    def _answer(self, command: Command) -> None:
        try:
            task = self._store.get(command.task_id)
            if task is None or task.status.is_final:
                detail = "the task is gone" if task is None else f"the task is {task.status}"
                self._store.complete_command(command.id, "too_late", detail)
            else:
                self._store.release_command(command.id, self._term)
        except (StoreError, Refused) as error:
            self._trouble.again(error, command=command.id)
        else:
            self._trouble.end()
        self._loop.call(self._next)
