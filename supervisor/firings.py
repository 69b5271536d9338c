"""Submits what schedules plan: each instant once in the whole deployment, by a claim in the store."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, StoreUnavailable
from chong.store.model import FiringClaim, Spot, TaskSnapshot
from chong.supervisor.backlog import Backlog
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.catching_up import CatchingUp
from chong.supervisor.courier import Courier
from chong.supervisor.intake import Intake
from chong.supervisor.loop import Loop
from chong.supervisor.misfire import is_too_late, missed
from chong.supervisor.plans import Plan, plans_of
from chong.supervisor.schedule import Firing, Schedule
from chong.supervisor.submission import Submission
from chong.supervisor.tasks import Tasks

LOOK_SECONDS = 1.0
"""At most so long until the next look: the wall clock may be set, and definitions may change."""
LEAST_SECONDS = 0.001
BATCH = 500
"""Instants that are claimed in one round trip."""
RESERVE = 1000
"""Places of the queue that are left to others than schedules."""
GRANTED_KEPT = 10_000
TRIGGER = "schedule"


class Firings:
    """Lives in the loop's thread; nothing fires before the node accepts work, and nothing once the supervisor ends.

    Of one name and key at most one scheduled task is open: while it waits or runs, firings are skipped, or wait in
    their line.
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
        self._backlog = Backlog()
        self._asked: dict[Spot, Firing] = {}
        """Whose claim is under way."""
        self._doubted: set[Firing] = set()
        """What was asked for, and not answered yet."""
        self._granted: dict[Firing, None] = {}
        """The newest that were run: when the clock is set back they come again, and their claims are still ours."""
        self._skipped: Counter[Spot] = Counter()
        self._catching_up = CatchingUp(loop, store, self._do, self._caught_up)

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
        # What waits behind them was never asked for; the next term finds that it was missed.
        for firing in list(self._doubted):
            self._miss(firing)
        self._asked.clear()

    def _do(self, job: Callable[[], None]) -> None:
        self.courier.do(job)

    def _go_by(self, catalogue: Catalogue | None, now: datetime) -> None:
        if catalogue is None or catalogue is self._catalogue:
            return
        self._catalogue = catalogue
        plans, errors = plans_of(catalogue, self._intake.admission)
        self._catching_up.expect(self._schedule.replace(plans, now), now)
        for name, error in errors.items():
            self._log.error("schedule_refused", name=name, error=str(error))

    def _fire(self, now: datetime) -> None:
        due = self._schedule.due(now)
        still_open = self._still_open() if due or self._backlog else set()
        for each in due:
            for key in each.keys:
                firings = [Firing(each.plan.name, key, instant) for instant in each.instants]
                self._plan(each.plan, firings, still_open)
        self._catching_up.turn()
        self._ask(still_open, now)

    def _still_open(self) -> set[Spot]:
        scheduled = (state.task for state in self._tasks.all() if state.task.trigger == TRIGGER)
        return {(task.name, task.bucket_key) for task in scheduled}

    def _plan(self, plan: Plan, firings: list[Firing], still_open: set[Spot]) -> None:
        """Of one spot; several of them are such as were missed."""
        spot = firings[-1].spot
        waiting = self._backlog.first(spot)
        is_behind = waiting is not None or len(firings) > 1
        if plan.overlap == "queue" or (plan.misfire == "all" and is_behind):
            for firing in firings:
                self._wait_in_line(plan, firing)
            return
        newest = firings[-1]
        if waiting is not None and waiting not in (newest, self._asked.get(spot)):
            self._miss(waiting)
        self._backlog.drop(spot)
        if spot in still_open:
            self._skip(newest)
        else:
            self._skipped.pop(spot, None)
            self._backlog.add(newest, 1)

    def _wait_in_line(self, plan: Plan, firing: Firing) -> None:
        gone = self._backlog.add(firing, plan.limit)
        if gone is not None and gone != self._asked.get(gone.spot):
            self._miss(gone)

    def _caught_up(self, since: Mapping[Spot, datetime], lasts: Mapping[Spot, datetime | None]) -> None:
        """What was missed comes before what has become due since it was asked for."""
        known: dict[tuple[str, datetime | None, datetime], list[datetime]] = {}
        for spot, begun in since.items():
            name, key = spot
            plan, last = self._schedule.plans.get(name), lasts[spot]
            if plan is None:
                continue
            if (name, last, begun) not in known:
                known[name, last, begun] = missed(plan, self._schedule.moments(plan), last, begun)
            instants = known[name, last, begun]
            limit = plan.limit if plan.is_in_line else 1
            for gone in self._backlog.put_before([Firing(name, key, instant) for instant in instants], limit):
                self._miss(gone)
        self._ask(self._still_open(), self.clock())

    def _miss(self, firing: Firing) -> None:
        self._doubted.discard(firing)
        self._log.warning("firing_missed", name=firing.name, key=firing.key, planned=firing.planned.isoformat())

    def _skip(self, firing: Firing) -> None:
        spot = firing.spot
        self._skipped[spot] += 1
        count = self._skipped[spot]
        if count & (count - 1) == 0:  # the 1st, 2nd, 4th … in a row: a task of hours may be due each second
            planned = firing.planned.isoformat()
            self._log.info("firing_skipped", name=firing.name, key=firing.key, planned=planned, in_a_row=count)

    def _ask(self, still_open: set[Spot], now: datetime) -> None:
        """One question at a time: a slow store gets no pile of them. No more than the queue has room for."""
        if self._asked or self._intake.is_ending:
            return
        room = min(BATCH, self._intake.room - RESERVE)
        if room > 0 and self._backlog:
            for firing in self._ready(still_open, now):
                self._asked[firing.spot] = firing
                self._doubted.add(firing)
                if len(self._asked) >= room:
                    break
        if self._asked:
            self._do(partial(self._claim, list(self._asked.values())))

    def _ready(self, still_open: set[Spot], now: datetime) -> Iterable[Firing]:
        """The first of each spot that has none open."""
        for spot in self._backlog:
            plan, first = self._schedule.plans.get(spot[0]), self._backlog.first(spot)
            if spot in still_open or spot in self._catching_up or first is None:
                continue
            if plan is None or is_too_late(plan, first.planned, now):
                self._backlog.drop_first(spot)
                self._miss(first)
            else:
                yield first

    def _claim(self, firings: list[Firing]) -> None:
        """In the store's thread."""
        node = self._intake.admission.node
        claims = [FiringClaim(each.name, each.key, each.planned, each.id_on(node)) for each in firings]
        outcomes: Sequence[bool | ChongError]
        try:
            outcomes = self._store.claim_firings(claims, node=node)
        except ConfigurationError:
            raise  # ends the term: no wait cures it
        except ChongError as error:
            outcomes = [error] * len(firings)
        self._loop.call(partial(self._claimed, firings, outcomes))

    def _claimed(self, firings: list[Firing], outcomes: Sequence[bool | ChongError]) -> None:
        is_away = any(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        for firing, outcome in zip(firings, outcomes, strict=True):
            if self._asked.pop(firing.spot, None) is not None:  # else the end has told it
                self._answered(firing, outcome)
        if not is_away:  # what it has no answer for is asked for again at the next look
            self._ask(self._still_open(), self.clock())

    def _answered(self, firing: Firing, outcome: bool | ChongError) -> None:
        """An instant that is ours runs though the next one has come: nobody else may run it.

        And the next one is skipped, as the one before it is open then, unless it stands in line. Else a store that
        takes longer than the interval would have every instant claimed and none run.
        """
        first = self._backlog.first(firing.spot)
        if isinstance(outcome, StoreUnavailable):
            if first != firing:
                self._miss(firing)
            return
        self._doubted.discard(firing)
        if first == firing:
            self._backlog.drop_first(firing.spot)
        if isinstance(outcome, ChongError):
            self._settled(firing, outcome)
        elif outcome:
            plan = self._schedule.plans.get(firing.name)
            if first is not None and first != firing and not (plan is not None and plan.is_in_line):
                self._backlog.drop(firing.spot)
                self._skip(first)
            self._run(firing)

    def _run(self, firing: Firing) -> None:
        if firing in self._granted:
            return
        self._granted[firing] = None
        if len(self._granted) > GRANTED_KEPT:
            del self._granted[next(iter(self._granted))]
        task_id = firing.id_on(self._intake.admission.node)
        submission = Submission(name=firing.name, key=firing.key, trigger=TRIGGER, id=task_id)
        self._intake.submit(submission, partial(self._settled, firing))

    def _settled(self, firing: Firing, outcome: TaskSnapshot | ChongError) -> None:
        if isinstance(outcome, ChongError):
            planned = firing.planned.isoformat()
            self._log.error("firing_refused", name=firing.name, key=firing.key, planned=planned, error=str(outcome))
