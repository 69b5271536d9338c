"""Answers programs on the node that ask for single tasks.

What the node has in its hands it answers from memory, and a waiter when the end is stored, without looking time and
again. The store is asked for the rest, in the courier's thread; while it is away the question waits.
"""

import os
from functools import partial
from typing import Any

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, Refused, StoreUnavailable, UnknownId
from chong.store.model import Action, TaskSnapshot
from chong.store.view import as_json
from chong.supervisor import events as e
from chong.supervisor.client import Client
from chong.supervisor.courier import Courier
from chong.supervisor.inquiry import Inquiry, Wanted, inquiry_of
from chong.supervisor.loop import Loop
from chong.supervisor.operations import Operation, Settled
from chong.supervisor.outage import Outage
from chong.supervisor.task_state import TaskState
from chong.supervisor.tasks import Tasks

LIMIT = 400
"""So many may wait at one time: fewer than may be connected, so that others are still heard."""
LOOK_AGAIN = 1.0
"""Seconds until the store is asked once more, when it could not tell."""

Found = TaskSnapshot | ChongError | None


class Inquiries:
    """Lives in the loop's thread. Whoever goes before the answer is forgotten."""

    def __init__(
        self, *, loop: Loop, store: TaskStore, node: str, tasks: Tasks, outage: Outage, courier: Courier
    ) -> None:
        self._loop = loop
        self._store = store
        self._node = node
        self._tasks = tasks
        self._outage = outage
        self._courier = courier
        self._open: dict[Inquiry, None] = {}
        self._of_tasks: dict[str, list[Inquiry]] = {}
        """Those that wait for what a task in our hands comes to."""
        self._unknown: list[Inquiry] = []
        """Those that wait for the store."""
        self._has_begun = False
        self._is_looking = False
        tasks.on_forget.append(self._forgotten)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def operations(self) -> dict[str, Operation]:
        """By name."""
        return {wanted.value: partial(self._request, wanted) for wanted in Wanted}

    def begin(self) -> None:
        """What was found is taken over: from now on a task that is not here is to be asked of the store."""
        self._has_begun = True
        self._look_soon(0.0)

    def stored(self, task_id: str, version: int) -> None:
        """The store has this version: a stop that led to it stands."""
        state = self._tasks.get(task_id)
        if state is None:
            return
        for inquiry in list(self._of_tasks.get(task_id, ())):
            if inquiry.version is not None and inquiry.version <= version:
                self._settle(inquiry, state.task)

    def store_away(self) -> None:
        """A stop is in effect although the store has not heard of it; its word may be long in coming."""
        for inquiry in [each for each in self._open if each.version is not None]:
            state = self._tasks.get(inquiry.task_id)
            if state is not None:
                self._settle(inquiry, state.task)

    def _request(self, wanted: Wanted, request: dict[str, Any], settled: Settled) -> None:
        inquiry = inquiry_of(wanted, request, settled)
        if len(self._open) >= LIMIT:
            raise Refused(f"waiting programs: expected fewer than {LIMIT} at one time on this node")
        self._open[inquiry] = None
        settled.on_gone(partial(self._drop, inquiry))
        self._take_up(inquiry)

    def _take_up(self, inquiry: Inquiry) -> None:
        state = self._tasks.get(inquiry.task_id)
        if state is None:
            self._ask_store(inquiry)
        elif inquiry.wanted is Wanted.GET:
            self._settle(inquiry, state.task)
        else:
            self._of_tasks.setdefault(inquiry.task_id, []).append(inquiry)
            if inquiry.wanted is Wanted.STOP and inquiry.version is None:
                self._stop(inquiry)

    def _stop(self, inquiry: Inquiry) -> None:
        asked = e.Asked(Action.STOP, inquiry.by, inquiry.reason)
        state = self._tasks.feed(inquiry.task_id, asked, f"{inquiry.task_id}.asked.{os.urandom(8).hex()}")
        if state is None or inquiry not in self._open:
            return
        inquiry.version = state.task.version
        if self._outage.is_on or state.stored_version >= state.task.version:
            self._settle(inquiry, state.task)

    def _forgotten(self, state: TaskState) -> None:
        """The task has left our hands: mostly because its end is stored, else the store knows who has it."""
        told = state.task if state.stored_version >= state.task.version and not state.desynced else None
        for inquiry in self._of_tasks.pop(state.task.id, []):
            if inquiry not in self._open:
                continue
            if told is not None and told.status.is_final:
                self._settle(inquiry, told)
            else:
                self._ask_store(inquiry)

    # --- what the store knows ----------------------------------------------------------------------------------

    def _ask_store(self, inquiry: Inquiry) -> None:
        self._unknown.append(inquiry)
        self._look_soon(0.0)

    def _look_soon(self, seconds: float) -> None:
        if self._has_begun and self._unknown and not self._is_looking:
            self._is_looking = True
            self._loop.later(seconds, self._look)

    def _look(self) -> None:
        if self._outage.is_on:
            self._is_looking = False
            self._look_soon(LOOK_AGAIN)
            return
        asked, self._unknown = self._unknown, []
        self._courier.do(partial(self._read, [each for each in asked if each in self._open]))

    def _read(self, asked: list[Inquiry]) -> None:
        """In the store's thread."""
        found: list[tuple[Inquiry, Found]] = []
        for inquiry in asked:
            try:
                found.append((inquiry, self._ask(inquiry)))
            except StoreUnavailable as away:
                found += [(each, away) for each in asked[len(found) :]]
                break
            except ChongError as error:
                found.append((inquiry, error))
        self._loop.call(partial(self._have_read, found))

    def _ask(self, inquiry: Inquiry) -> TaskSnapshot | None:
        """A stop of what is not in our hands is asked for as from anywhere else: a request that its holder takes."""
        task = self._store.get(inquiry.task_id)
        if inquiry.wanted is Wanted.STOP and task is not None and not task.status.is_final:
            Client(self._store, issued_by=inquiry.by).stop(task.id, inquiry.reason)
        return task

    def _have_read(self, found: list[tuple[Inquiry, Found]]) -> None:
        self._is_looking = False
        for inquiry, what in found:
            if inquiry in self._open:
                self._hear(inquiry, what)
        self._look_soon(LOOK_AGAIN)

    def _hear(self, inquiry: Inquiry, found: Found) -> None:
        if isinstance(found, StoreUnavailable):
            self._unknown.append(inquiry)
        elif inquiry.task_id in self._tasks and not isinstance(found, ChongError):
            self._take_up(inquiry)  # it has come into our hands meanwhile
        elif found is None:
            self._settle(inquiry, UnknownId(inquiry.task_id))
        elif isinstance(found, ChongError) or found.status.is_final or inquiry.wanted is not Wanted.WAIT:
            self._settle(inquiry, found)
        elif found.node == self._node:
            self._unknown.append(inquiry)  # of a dead term, and not judged yet
        else:
            where = f"task {found.id} is {found.status} on node {found.node}"
            self._settle(inquiry, Refused(f"wait: expected a task of node {self._node}: {where}; ask there"))

    def _settle(self, inquiry: Inquiry, outcome: TaskSnapshot | ChongError) -> None:
        self._drop(inquiry)
        inquiry.settled(outcome if isinstance(outcome, ChongError) else {"task": as_json(outcome)})

    def _drop(self, inquiry: Inquiry) -> None:
        self._open.pop(inquiry, None)
        waiting = self._of_tasks.get(inquiry.task_id, [])
        if inquiry in waiting:
            waiting.remove(inquiry)
            if not waiting:
                del self._of_tasks[inquiry.task_id]
