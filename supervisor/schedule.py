"""When scheduled tasks are due: a heap of what comes next, so that a look costs what is due and not what is planned."""

import hashlib
import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chong.store.ids import id_at
from chong.store.model import Spot
from chong.supervisor.misfire import to_fire
from chong.supervisor.plans import Plan
from chong.worker.schedules import BoundedMoments, Timing, moments_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEP_BACK = timedelta(seconds=1)
"""A clock that goes back further than this was set."""
NO_JITTER = timedelta()


@dataclass(frozen=True, slots=True)
class Firing:
    """One planned instant of a plan, for one key."""

    name: str
    key: str | None
    planned: datetime

    @property
    def spot(self) -> Spot:
        return self.name, self.key

    def id_on(self, node: str) -> str:
        """The id of its task and of its claim there: the same however often it is asked for."""
        said = "\0".join([self.name, "" if self.key is None else f"={self.key}", self.planned.isoformat(), node])
        milliseconds = (self.planned - EPOCH) // timedelta(milliseconds=1)
        return id_at(milliseconds, hashlib.blake2b(said.encode(), digest_size=10).digest())


def jitter_of(name: str, key: str | None, planned: datetime, most: float) -> timedelta:
    """How late an instant is fired on purpose, less than `most` seconds: the same on every node."""
    if not most:
        return NO_JITTER
    said = "\0".join([name, "" if key is None else f"={key}", planned.isoformat()])
    share = int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "big")
    return timedelta(microseconds=share * round(most * 1_000_000) >> 64)


class Entry:
    """One timing of a plan for keys that are due together: all of them, or with jitter one.

    mark: up to which instant it has fired. due: when the next one is to be fired; None when none comes any more.
    """

    __slots__ = ("due", "keys", "mark", "moments", "plan", "planned", "timing")

    def __init__(
        self, plan: Plan, timing: Timing, moments: BoundedMoments, keys: tuple[str | None, ...], mark: datetime
    ) -> None:
        self.plan = plan
        self.timing = timing
        self.moments = moments
        self.keys = keys
        self.pass_by(mark)

    def pass_by(self, mark: datetime) -> None:
        """Go on with the first instant behind `mark`."""
        self.mark = mark
        self.planned = self.moments.after(mark)
        self.due = None if self.planned is None else self.planned + self.jitter(self.planned)

    def jitter(self, planned: datetime) -> timedelta:
        return jitter_of(self.plan.name, self.keys[0], planned, self.timing.jitter)

    def take(self, now: datetime) -> list[datetime]:
        """The instants that are to be fired now, oldest first; at least one is due."""
        instants = self.moments.newest(self.mark, now, self.plan.most + 1)
        if instants[-1] + self.jitter(instants[-1]) > now:
            instants.pop()  # only the newest can be: a jitter is shorter than the time between two
        self.pass_by(instants[-1])
        return to_fire(self.plan, instants[-self.plan.most :], now)


@dataclass(frozen=True, slots=True)
class Due:
    plan: Plan
    keys: tuple[str | None, ...]
    instants: list[datetime]


class Schedule:
    """Pure: knows of each entry up to which instant it has fired. Instants before a plan was known never fire."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self._moments: dict[Timing, BoundedMoments] = {}
        self._heap: list[tuple[datetime, int, Entry]] = []
        self._order = itertools.count()
        self._last = EPOCH
        self.looked = 0
        """How many entries were looked at."""

    def replace(self, plans: Iterable[Plan], now: datetime) -> list[Spot]:
        """Go by these plans from now on; the spots that are new, or whose times have changed, begin now."""
        old = self.plans
        marks = {(entry.plan.name, entry.timing, key): entry.mark for *_, entry in self._heap for key in entry.keys}
        self.plans = {plan.name: plan for plan in plans}
        wanted = {timing for plan in self.plans.values() for timing in plan.timings}
        self._moments = {timing: self._moments.get(timing) or moments_of(timing) for timing in wanted}
        self._fill(entry for plan in self.plans.values() for entry in self._entries(plan, marks, now))
        return [spot for plan in self.plans.values() for spot in _new_spots(old.get(plan.name), plan)]

    def moments(self, plan: Plan) -> list[BoundedMoments]:
        return [self._moments[timing] for timing in plan.timings]

    def due(self, now: datetime) -> list[Due]:
        """What has become due since the last look; of several instants of one entry those that its plan makes up for.

        A clock that went back a little lets nothing fire twice; one that went back further than an interval starts
        anew there, and the store's claims see to it that what had fired before does not again.
        """
        if now < self._last - STEP_BACK:
            self._go_back(now)
        self._last = now
        found = []
        while self._heap and self._heap[0][0] <= now:
            entry = self._heap[0][2]
            self.looked += 1
            instants = entry.take(now)
            if instants:
                found.append(Due(entry.plan, entry.keys, instants))
            if entry.due is None:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (entry.due, next(self._order), entry))
        return found

    def seconds_to_next(self, now: datetime) -> float | None:
        """How long until something may be due; None when nothing comes any more."""
        return max(0.0, (self._heap[0][0] - now).total_seconds()) if self._heap else None

    def _entries(
        self, plan: Plan, marks: dict[tuple[str, Timing, str | None], datetime], now: datetime
    ) -> Iterator[Entry]:
        for timing in plan.timings:
            moments = self._moments[timing]
            groups = [(key,) for key in plan.keys] if timing.jitter else [plan.keys] if plan.keys else []
            for keys in groups:
                # Those of one entry have the same mark; a key that is new beside them begins with them.
                known = (marks[spot] for key in keys if (spot := (plan.name, timing, key)) in marks)
                yield Entry(plan, timing, moments, keys, next(known, now))

    def _fill(self, entries: Iterable[Entry]) -> None:
        self._heap = [(entry.due, next(self._order), entry) for entry in entries if entry.due is not None]
        heapq.heapify(self._heap)

    def _go_back(self, now: datetime) -> None:
        entries = [entry for *_, entry in self._heap]
        for entry in entries:
            if entry.planned is not None and now < entry.mark - (entry.planned - entry.mark):
                entry.pass_by(now)
        self._fill(entries)


def _new_spots(old: Plan | None, new: Plan) -> list[Spot]:
    known = frozenset(old.keys) if old is not None and old.timings == new.timings else frozenset()
    return [(new.name, key) for key in new.keys if key not in known]
