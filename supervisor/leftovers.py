"""Runs of former terms that may still live somewhere: judged in the background, by their leases, or as soon as the
forkservers are gone that may hold them.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from chong.store.errors import StoreUnavailable, UnreadableRow
from chong.store.model import Lease, TaskSnapshot
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.supervisor.courier import Courier
from chong.supervisor.forkservers import still_locked
from chong.supervisor.inventory import Inventory
from chong.supervisor.loop import Loop
from chong.supervisor.reconcile import Judge, new_event_id
from chong.supervisor.recover import find_dead
from chong.supervisor.recurring import Recurring
from chong.supervisor.scene import Scene
from chong.supervisor.watch import Watch

T = TypeVar("T")


class Leftovers:
    """Looks every `every` seconds at `ids` until each was renewed by others, is expired, or proven dead and adopted.

    on_lost: told of those that were expired. on_dead: of those that are ours to bury. trouble: that there is no look,
    or that a row cannot be read, whose run is looked at again until it can; it belongs to the store's thread.
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
        trouble: Recurring,
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
        self._trouble = trouble
        self._fault: UnreadableRow | None = None
        """What could not be read in this look."""
        self._watch = Watch()
        self._event_id = new_event_id()
        self._dead: set[str] = set()
        """Found dead, but whether the store took it is not known yet."""

    def begin(self) -> None:
        if self._ids or self._dead:
            self._courier.do(self._look)

    def _look(self) -> None:
        """In the store's thread."""
        self._fault = None
        try:
            self._look_at_forkservers()
            self._look_at_leases()
        except (StoreUnavailable, OSError) as error:  # or there is no descriptor to look at the locks with
            self._watch.forget()
            self._trouble.again(error)
        else:
            self._tell_fault()
        self._loop.call(self._look_later)

    def _tell_fault(self) -> None:
        if self._fault is None:
            self._trouble.end()
        else:
            self._trouble.again(self._fault)

    def _look_at_forkservers(self) -> None:
        if self._is_proven or still_locked(self._scene.paths, self._scene.silent):
            return
        found, unread = self._of_each(self._ids, partial(find_dead, self._judge.store, self._scene))
        self._is_proven = not unread
        for each in found:
            self._ids -= {task.id for task in each.dead}
            self._loop.call(partial(self._on_dead, each))

    def _look_at_leases(self) -> None:
        read, unread = self._of_each(self._ids, self._leases)
        leases = [lease for each in read for lease in each]
        self._dead |= set(self._watch.observe(leases, time.monotonic()))
        self._ids = unread | {lease.task_id for lease in leases}.difference(self._dead)
        if self._dead:
            self._expire()

    def _leases(self, ids: frozenset[str]) -> list[Lease]:
        return self._judge.store.leases(ids, whole=True)

    def _expire(self) -> None:
        done, unread = self._of_each(self._dead, partial(self._judge.expire, event_id=self._event_id))
        lost = [task for each in done for task in each]
        silent = frozenset(self._dead).difference(unread, (task.id for task in lost))
        self._dead = {*unread, *self._unheard_of(silent)}
        if lost:
            self._loop.call(partial(self._on_lost, lost))

    def _unheard_of(self, silent: frozenset[str]) -> frozenset[str]:
        """Of those that were to be expired, and of which no word came back: who may be lost, and cannot be read.

        The event will tell whether it was us, as soon as they can be. Who has a lease was renewed just before, and is
        watched as before; the others were ended by somebody else.
        """
        read, unread = self._of_each(silent, self._leases)
        held = unread.union(lease.task_id for each in read for lease in each)
        self._ids |= held
        return self._of_each(silent - held, self._tasks)[1]

    def _tasks(self, ids: frozenset[str]) -> list[TaskSnapshot]:
        return list(all_tasks(self._judge.store, TaskQuery(ids=ids), whole=True))

    def _of_each(self, ids: Iterable[str], ask: Callable[[frozenset[str]], T]) -> tuple[list[T], frozenset[str]]:
        """What is asked of all at once, without those of whom a row cannot be read; and who they are.

        A row costs nobody but its own run. One that is no run's, such as a term's, costs all of them this look: asked
        for alone, each would fail by it.
        """
        together = frozenset(ids)
        unread: frozenset[str] = frozenset()
        while left := together - unread:
            try:
                return [ask(left)], unread
            except UnreadableRow as fault:
                self._fault = fault
                unread |= left & {fault.key} or left
        return [], unread

    def _look_later(self) -> None:
        if self._ids or self._dead:
            self._loop.later(self._every, self.begin)
