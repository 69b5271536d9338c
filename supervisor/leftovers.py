"""Runs of former terms that may still live somewhere: judged in the background, by their leases, or as soon as the
forkservers are gone that may hold them.
"""

import time
from collections.abc import Callable
from functools import partial

from chong.store.errors import StoreUnavailable
from chong.store.model import TaskSnapshot
from chong.supervisor.courier import Courier
from chong.supervisor.forkservers import still_locked
from chong.supervisor.loop import Loop
from chong.supervisor.reconcile import Judge, new_event_id
from chong.supervisor.recover import Inventory, Scene, find_dead
from chong.supervisor.watch import Watch


class Leftovers:
    """Looks every `every` seconds at `ids` until each was renewed by others, is expired, or proven dead and adopted.

    on_lost: told of those that were expired. on_dead: of those that are ours to bury.
    """

    def __init__(
        self,
        loop: Loop,
        courier: Courier,
        judge: Judge,
        scene: Scene,
        ids: frozenset[str],
        *,
        every: float,
        on_lost: Callable[[list[TaskSnapshot]], None],
        on_dead: Callable[[Inventory], None],
    ) -> None:
        self._loop = loop
        self._courier = courier
        self._judge = judge
        self._scene = scene
        self._is_proven = not scene.silent
        """Whether all that can be known without the leases is known."""
        self._ids = ids
        self._every = every
        self._on_lost = on_lost
        self._on_dead = on_dead
        self._watch = Watch()
        self._event_id = new_event_id()
        self._dead: set[str] = set()
        """Found dead, but whether the store took it is not known yet."""

    def begin(self) -> None:
        if self._ids or self._dead:
            self._courier.do(self._look)

    def _look(self) -> None:
        try:
            self._look_at_forkservers()
            leases = self._judge.store.leases(self._ids)
            self._dead |= set(self._watch.observe(leases, time.monotonic()))
            lost = self._judge.expire(self._dead, self._event_id) if self._dead else []
        except (StoreUnavailable, OSError):  # or there is no descriptor to look at the locks with
            self._watch.forget()
        else:
            self._ids = frozenset(lease.task_id for lease in leases).difference(self._dead)
            self._dead.clear()
            if lost:
                self._loop.call(partial(self._on_lost, lost))
        self._loop.call(self._look_later)

    def _look_at_forkservers(self) -> None:
        if self._is_proven or still_locked(self._scene.paths, self._scene.silent):
            return
        found = find_dead(self._judge.store, self._scene, self._ids)
        self._is_proven = True
        self._ids -= {task.id for task in found.dead}
        self._loop.call(partial(self._on_dead, found))

    def _look_later(self) -> None:
        if self._ids or self._dead:
            self._loop.later(self._every, self.begin)
