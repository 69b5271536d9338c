"""Submits what schedules plan: each instant once in the whole deployment, by a claim in the store."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import TaskSnapshot
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.courier import Courier
from chong.supervisor.intake import Intake
from chong.supervisor.loop import Loop
from chong.supervisor.schedule import Firing, Schedule, plans_of
from chong.supervisor.submission import Submission
from chong.supervisor.tasks import Tasks

LOOK_SECONDS = 1.0
"""At most so long until the next look: the wall clock may be set, and definitions may change."""
LEAST_SECONDS = 0.001
TRIGGER = "schedule"

Spot = tuple[str, str | None]


class Firings:
    """Lives in the loop's thread; nothing fires before the node accepts work, and nothing once the supervisor ends.

    Of one name and key at most one scheduled task is open: while it waits or runs, firings are skipped.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        store: TaskStore,
        intake: Intake,
        tasks: Tasks,
        log: structlog.typing.FilteringBoundLogger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.courier: Courier
        self.clock = clock
        self._loop = loop
        self._store = store
        self._intake = intake
        self._tasks = tasks
        self._log = log
        self._schedule = Schedule()
        self._catalogue: Catalogue | None = None
        self._unclaimed: dict[Spot, Firing] = {}
        self._asked: dict[Spot, Firing] = {}
        """Whose claim is under way."""
        self._skipped: Counter[Spot] = Counter()

    def look(self) -> None:
        """Fire what is due, and look again when something may be."""
        now = self.clock()
        if self._intake.is_accepting and not self._intake.is_ending:
            self._go_by(self._intake.catalogue, now)
            self._fire(now)
        wait = self._schedule.seconds_to_next(now)
        self._loop.later(LOOK_SECONDS if wait is None else max(LEAST_SECONDS, min(wait, LOOK_SECONDS)), self.look)

    @property
    def is_asking(self) -> bool:
        """Whether a claim is under way: what it is granted nobody else runs."""
        return bool(self._asked)

    def end(self) -> None:
        """Tell the instants whose claims have no answer: they may be granted, and nobody runs them now."""
        # Where one claim is under way a newer instant waits behind it; that one was never asked for.
        for firing in (self._unclaimed | self._asked).values():
            self._miss(firing)
        self._asked.clear()

    def _go_by(self, catalogue: Catalogue | None, now: datetime) -> None:
        if catalogue is None or catalogue is self._catalogue:
            return
        self._catalogue = catalogue
        plans, errors = plans_of(catalogue, self._intake.admission)
        self._schedule.replace(plans, now)
        for name, error in errors.items():
            self._log.error("schedule_refused", name=name, error=error)

    def _fire(self, now: datetime) -> None:
        due = self._schedule.due(now)
        scheduled = [state.task for state in self._tasks.all() if state.task.trigger == TRIGGER] if due else []
        still_open = {(task.name, task.bucket_key) for task in scheduled}
        for firing in due:
            self._plan(firing, still_open)
        for spot in self._unclaimed:
            self._ask(spot)

    def _plan(self, firing: Firing, still_open: set[Spot]) -> None:
        spot = (firing.name, firing.key)
        before = self._unclaimed.pop(spot, None)
        if before is not None and before != self._asked.get(spot):
            self._miss(before)
        if spot in still_open:
            self._skip(firing)
        else:
            self._skipped.pop(spot, None)
            self._unclaimed[spot] = firing

    def _miss(self, firing: Firing) -> None:
        self._log.warning("firing_missed", name=firing.name, key=firing.key, planned=firing.planned.isoformat())

    def _skip(self, firing: Firing) -> None:
        spot = (firing.name, firing.key)
        self._skipped[spot] += 1
        count = self._skipped[spot]
        if count & (count - 1) == 0:  # the 1st, 2nd, 4th … in a row: a task of hours may be due each second
            planned = firing.planned.isoformat()
            self._log.info("firing_skipped", name=firing.name, key=firing.key, planned=planned, in_a_row=count)

    def _ask(self, spot: Spot) -> None:
        """One question of a name and key at a time: a slow store gets no pile of them."""
        if spot not in self._asked:
            firing = self._asked[spot] = self._unclaimed[spot]
            self.courier.do(partial(self._claim, firing))

    def _claim(self, firing: Firing) -> None:
        """In the store's thread."""
        node = self._intake.admission.node
        outcome: bool | ChongError
        try:
            outcome = self._store.claim_firing(
                firing.name, firing.key, firing.planned, node=node, event_id=firing.id_on(node)
            )
        except ConfigurationError:
            raise  # ends the term: no wait cures it
        except ChongError as error:
            outcome = error
        self._loop.call(partial(self._claimed, firing, outcome))

    def _claimed(self, firing: Firing, outcome: bool | ChongError) -> None:
        """An instant that is ours runs though the next one has come: nobody else may run it.

        And the next one is skipped, as the one before it is open then. Else a store that takes longer than the interval
        would have every instant claimed and none run.
        """
        spot = (firing.name, firing.key)
        if self._asked.pop(spot, None) is None:
            return  # the end has told it
        newest = self._unclaimed.get(spot)
        if isinstance(outcome, StoreUnavailable):
            if newest != firing:
                self._miss(firing)
            return  # the newest is asked for at the next look
        if newest == firing or outcome is True:
            self._unclaimed.pop(spot, None)
        elif newest is not None and not self._intake.is_ending:
            self._ask(spot)
        if isinstance(outcome, ChongError):
            self._settled(firing, outcome)
        elif outcome:
            if newest is not None and newest != firing:
                self._skip(newest)
            self._run(firing)

    def _run(self, firing: Firing) -> None:
        task_id = firing.id_on(self._intake.admission.node)
        submission = Submission(name=firing.name, key=firing.key, trigger=TRIGGER, id=task_id)
        self._intake.submit(submission, partial(self._settled, firing))

    def _settled(self, firing: Firing, outcome: TaskSnapshot | ChongError) -> None:
        if isinstance(outcome, ChongError):
            planned = firing.planned.isoformat()
            self._log.error("firing_refused", name=firing.name, key=firing.key, planned=planned, error=str(outcome))
