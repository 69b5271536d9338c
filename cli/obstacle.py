"""What keeps a task from starting, for somebody who waits for its end."""

import time
from collections.abc import Sequence

from chong.cli.find import TAIL
from chong.cli.late import REMARK_SECONDS
from chong.cli.render import escape
from chong.cli.screen import remark
from chong.store.contract import TaskStore
from chong.store.model import TaskSnapshot
from chong.store.states import WAITING
from chong.supervisor.shown_holds import ShownHold, ShownHolds

EVERY_SECONDS = 5.0
"""Between two looks: each asks for all holds, and for the definitions of a node."""


class Obstacle:
    """Tells of each hold once, when the wait has lasted for a while: it may last until somebody lifts them all."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._next = time.monotonic() + REMARK_SECONDS
        self._told: Sequence[ShownHold] = ()

    def look(self, task: TaskSnapshot) -> None:
        """In the thread that waits: an outage of the store is one for it, too."""
        if task.status not in WAITING or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        found = ShownHolds(self._store.catalogue(task.node), self._store.holds().holds).all_on(task)
        for hold in found:
            if hold not in self._told:
                remark(escape(f"chong: no answer yet: task {task.id[-TAIL:]} is held: {hold.text}; {hold.release}"))
        self._told = found
