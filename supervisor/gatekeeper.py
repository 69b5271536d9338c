"""Lets what is held wait: on an operator's word to this node or in the store, or because the breaker tripped."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from chong.store.errors import ConfigurationError, Refused
from chong.store.model import HoldScope, SharedHold, TaskSnapshot
from chong.supervisor.breaker import WINDOW, Breaker, crash_of
from chong.supervisor.events import SaveState
from chong.supervisor.holds import EVERYTHING, Hold, Holds
from chong.supervisor.intake import Intake
from chong.supervisor.operations import RequestSettled
from chong.supervisor.queue import NODE, Slot, TurnQueue
from chong.supervisor.submission import REASON_LIMIT, check_text
from chong.supervisor.tasks import Tasks
from chong.worker.options import NAME_LIMIT


class Gatekeeper:
    """Lives in the loop's thread. `on_change` is called whenever others should be shown what is held."""

    def __init__(
        self,
        *,
        node: str,
        term: str,
        holds: Holds,
        queue: TurnQueue,
        tasks: Tasks,
        intake: Intake,
        on_change: Callable[[], None],
        crashes: int | None,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._node = node
        self._term = term
        self._holds = holds
        self._shared: tuple[SharedHold, ...] = ()
        self._shut: frozenset[Slot] = frozenset()
        self._queue = queue
        self._tasks = tasks
        self._intake = intake
        self._on_change = on_change
        self._log = log
        self._crashes = crashes
        self._breaker = Breaker(crashes)
        tasks.on_move = self.count

    def begin(self) -> None:
        """Hold what former terms held, before anything can start."""
        if not self._holds.load(self._term):
            self._log.error("holds_unreadable", held="everything, until it is released by hand")
            self._keep(self._holds.set_aside)
        self._shut_gates()

    def texts(self, defined: Iterable[str]) -> dict[str, str]:
        """What to show of each defined name that is held, and of each that is held by itself."""
        found = {name: self._holds.on(name) for name in (*defined, *self._holds)}
        return {name: hold.text for name, hold in found.items() if hold is not None}

    # --- the store -------------------------------------------------------------------------------------------

    def go_by(self, shared: tuple[SharedHold, ...]) -> None:
        """Keep to the holds in the store that concern this node; those of the node itself stay as they are."""
        ours = tuple(hold for hold in shared if hold.scope is not HoldScope.NODE or hold.target == self._node)
        for hold in set(ours) - set(self._shared):
            self._log.warning("held", scope=hold.scope, target=hold.target, by=hold.by, reason=hold.reason)
        for hold in set(self._shared) - set(ours):  # who has lifted it the store does not say
            self._log.warning("released", scope=hold.scope, target=hold.target, held_by=hold.by, reason=hold.reason)
        self._shared = ours
        self._shut_gates()

    # --- operators -------------------------------------------------------------------------------------------

    def hold_request(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """Hold `names` for `by`, who may give a `reason`. A name that an operator holds already stays as it is."""
        names, by, reason = self._read(request)
        had = {name: self._holds.get(name) for name in names}
        hold = Hold(by=by, reason=reason, since=datetime.now(UTC))
        trouble = self._hold({name: hold for name, old in had.items() if old is None or old.by_breaker})
        self._answer(had, trouble, settled)

    def unhold_request(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """Release `names`; one that is not held is done."""
        names, by, reason = self._read(request)
        had = {name: self._holds.get(name) for name in names}
        trouble = self._release([name for name, old in had.items() if old is not None], by=by, reason=reason)
        self._answer(had, trouble, settled)

    def _read(self, request: dict[str, Any]) -> tuple[list[str], str, str | None]:
        names, by, reason = (request.get(field) for field in ("names", "by", "reason"))
        if not isinstance(names, list) or not names:
            raise ConfigurationError(f"names: expected a list of task names, got {str(names)[:60]!r}")
        for name in names:
            check_text("task name", name, NAME_LIMIT)
        names = list(dict.fromkeys(names))
        self._check_known(names)
        check_text("by", by, NAME_LIMIT)
        if reason is not None:
            check_text("reason", reason, REASON_LIMIT)
        return names, str(by), reason

    def _check_known(self, names: list[str]) -> None:
        """A definition may be gone while its tasks still wait, or while its hold still stands."""
        known = {EVERYTHING, *self._holds, *(state.task.name for state in self._tasks.all())}
        for name in names:
            if name in known:
                continue
            if self._intake.catalogue is None:
                raise Refused(f"task {name!r}: the node has not loaded its task modules yet, nothing starts before")
            self._intake.catalogue.find(name)

    def _answer(self, had: dict[str, Hold | None], trouble: OSError | None, settled: RequestSettled) -> None:
        if trouble is not None:
            settled(Refused(f"done, but only until this supervisor ends: it cannot be kept on the disk: {trouble}"))
            return
        waiting = [state.task for state in self._tasks.all() if state.task.status.is_waiting]
        settled({"names": [self._fact(name, old, waiting) for name, old in had.items()]})

    def _fact(self, name: str, had: Hold | None, waiting: Sequence[TaskSnapshot]) -> dict[str, Any]:
        """`had`: its own hold before, `hold`: the node's that keeps it from starting now, `shared`: the store's.

        `waiting`: how many tasks of it wait; of what is released only those that nothing else holds.
        `undefined`: how many of them will fail instead of starting, as no module defines them any more; of everything
        only those that are not held by themselves.
        """
        now = self._holds.on(name)
        had_text, now_text = (None if hold is None else hold.text for hold in (had, now))
        found = [task for task in waiting if name in {task.name, EVERYTHING}]
        if now is None:
            found = [task for task in found if not self._is_held(task)]
        alone = [task for task in found if name == task.name or task.name not in self._holds]
        undefined = sum(not self._is_defined(task.name) for task in alone)
        return {
            "name": name,
            "had": had_text,
            "hold": now_text,
            "shared": self._shared_text(name),
            "waiting": len(found),
            "undefined": undefined,
        }

    def _is_held(self, task: TaskSnapshot) -> bool:
        slots = {NODE, ("name", task.name), ("bucket", task.bucket)}
        return not slots.isdisjoint(self._shut)

    def _shared_text(self, name: str) -> str | None:
        """Which hold in the store keeps all of a name from starting here."""
        holds = (h for h in self._shared if h.scope is HoldScope.NODE or (h.scope, h.target) == (HoldScope.NAME, name))
        return next((hold.text for hold in holds), None)

    def _is_defined(self, name: str) -> bool:
        """Also as long as nobody knows: nothing starts, so nothing fails, before the task modules are loaded."""
        catalogue = self._intake.catalogue
        return catalogue is None or name in catalogue.tasks

    # --- the breaker -----------------------------------------------------------------------------------------

    def count(self, save: SaveState) -> None:
        """A change of a task is about to be stored: if it is a crash, its name may be held for it."""
        cause, name = crash_of(save), save.snapshot.name
        if cause is None or not self._breaker.crashed(name, time.monotonic()) or name in self._holds:
            return
        reason = f"breaker: {self._crashes} crashes in {WINDOW / 60:.0f} min, last: {cause}"
        self._log.error("breaker_tripped", name=name, reason=reason)
        self._hold({name: Hold(by=self._term, reason=reason, since=datetime.now(UTC), by_breaker=True)})

    def new_code(self) -> None:
        """A reload was carried out: what crashed may be mended, and is counted anew."""
        self._breaker = Breaker(self._crashes)
        tripped = [name for name in self._holds if (hold := self._holds.get(name)) is not None and hold.by_breaker]
        self._release(tripped, by=self._term, reason="new code was loaded")

    # --- both ------------------------------------------------------------------------------------------------

    def _hold(self, holds: dict[str, Hold]) -> OSError | None:
        for name, hold in holds.items():
            self._log.warning("held", name=name, by=hold.by, reason=hold.reason)
        return self._keep(partial(self._holds.put, holds)) if holds else None

    def _release(self, names: list[str], *, by: str, reason: str | None) -> OSError | None:
        for name in names:
            self._log.warning("released", name=name, by=by, reason=reason)
        return self._keep(partial(self._holds.drop, names)) if names else None

    def _keep(self, change: Callable[[], object]) -> OSError | None:
        """Make a change of the holds; what kept the disk from taking it, if something did."""
        trouble = None
        try:
            change()
        except OSError as error:
            self._log.error("hold_not_kept", error=str(error))
            trouble = error
        self._shut_gates()
        self._on_change()
        return trouble

    def _shut_gates(self) -> None:
        """What anybody holds is shut, and nothing else is."""
        wanted = frozenset({*map(_slot_of_name, self._holds), *map(_slot_of, self._shared)})
        for slot in wanted - self._shut:
            self._queue.hold(slot)
        for slot in self._shut - wanted:
            self._queue.unhold(slot)
        self._shut = wanted


def _slot_of_name(name: str) -> Slot:
    return NODE if name == EVERYTHING else ("name", name)


def _slot_of(hold: SharedHold) -> Slot:
    if hold.scope is HoldScope.NODE:
        return NODE
    return ("bucket", int(hold.target)) if hold.scope is HoldScope.BUCKET else ("name", hold.target)
