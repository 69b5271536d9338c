"""Forkservers that may be stuck, because something that only they can tell is overdue: each is asked, and killed unless
it says anything in time. Its runs come to the supervisor, as after any other death of a forkserver.

A late word alone proves nothing: a tracer may hold the worker, or the kernel something that the run has left behind.
"""

from collections.abc import Callable
from functools import partial

from chong.supervisor.generation import Generation
from chong.supervisor.listeners import ForkserverListener
from chong.supervisor.loop import Loop
from chong.worker.wire import Order

LOOK = 0.5
LOOKS = 6
"""So often the answer is looked for: in all, less than after which a kill without effect is told. A pause of the whole
machine costs one look, and not the forkserver's life."""


class Doubts:
    def __init__(self, loop: Loop, listener: ForkserverListener, kill: Callable[[Generation], None]) -> None:
        self._loop = loop
        self._listener = listener
        self._kill = kill
        self._asked: set[Generation] = set()

    def ask(self, generation: Generation) -> None:
        """Unless it is being asked already."""
        if generation not in self._asked:
            self._asked.add(generation)
            generation.order(Order.PING)
            self._loop.later(LOOK, partial(self._look, generation, generation.heard, LOOKS))

    def _look(self, generation: Generation, heard: int, left: int) -> None:
        if generation.is_closed or generation.heard > heard:
            self._asked.discard(generation)
        elif left > 1:
            self._loop.later(LOOK, partial(self._look, generation, heard, left - 1))
        else:
            self._asked.discard(generation)
            self._listener.forkserver_stuck(generation.number, LOOK * LOOKS)
            self._kill(generation)
