"""When scheduled tasks are due: at the multiples of their interval since the epoch, the same on every node."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chong.store.errors import Refused
from chong.store.ids import id_at
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue, Task

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Plan:
    """`every`: microseconds; `keys`: those that this node owns, or None for work without a key."""

    name: str
    every: int
    keys: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Firing:
    """One planned instant of a plan, for one key."""

    name: str
    key: str | None
    planned: datetime

    def id_on(self, node: str) -> str:
        """The id of its task and of its claim there: the same however often it is asked for."""
        said = "\0".join([self.name, "" if self.key is None else f"={self.key}", self.planned.isoformat(), node])
        milliseconds = (self.planned - EPOCH) // timedelta(milliseconds=1)
        return id_at(milliseconds, hashlib.blake2b(said.encode(), digest_size=10).digest())


def plans_of(catalogue: Catalogue, admission: Admission) -> tuple[list[Plan], dict[str, str]]:
    """What this node has to fire, and by name why a definition cannot be scheduled here."""
    plans, errors = [], {}
    for task in catalogue.tasks.values():
        if task.options.every is None:
            continue
        try:
            keys = _keys_of(task, admission)
        except Refused as refusal:
            errors[task.name] = str(refusal)
        else:
            plans.append(Plan(task.name, round(task.options.every * 1_000_000), keys))
    return plans, errors


def _keys_of(task: Task, admission: Admission) -> tuple[str | None, ...]:
    if task.required:
        raise Refused(f"every: expected no parameter without a default, got {', '.join(sorted(task.required))}"[:500])
    if not task.options.keys:
        if not admission.owns_all_buckets:
            raise Refused("every: expected keys, because this node owns some of the buckets only; got none")
        return (None,)
    return tuple(key for key in task.options.keys if admission.owns_bucket(admission.policy.bucket_of(key)))


class Schedule:
    """Pure: knows of each plan up to which instant it has fired. Instants before a plan was known never fire."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._fired: dict[str, int] = {}

    def replace(self, plans: Iterable[Plan], now: datetime) -> None:
        """Go by these plans from now on; one whose interval is the same goes on where it was."""
        old, self._plans = self._plans, {plan.name: plan for plan in plans}
        self._fired = {
            plan.name: self._fired[plan.name] if _same_interval(old.get(plan.name), plan) else _micros(now)
            for plan in self._plans.values()
        }

    def due(self, now: datetime) -> list[Firing]:
        """What has become due since the last look; of several instants of one plan only the newest.

        A clock that went back a little lets nothing fire twice; one that went back further than an interval starts
        anew there, and the store's claims see to it that what had fired before does not again.
        """
        firings = []
        for plan in self._plans.values():
            newest = _micros(now) // plan.every * plan.every
            fired = self._fired[plan.name]
            if newest > fired:
                planned = EPOCH + newest * MICROSECOND
                firings += [Firing(plan.name, key, planned) for key in plan.keys]
            if newest > fired or newest < fired - plan.every:
                self._fired[plan.name] = newest
        return firings

    def seconds_to_next(self, now: datetime) -> float | None:
        """How long until something may be due; None when there is no plan."""
        waits = [plan.every - _micros(now) % plan.every for plan in self._plans.values()]
        return min(waits) / 1e6 if waits else None


def _same_interval(old: Plan | None, new: Plan) -> bool:
    return old is not None and old.every == new.every


def _micros(now: datetime) -> int:
    return (now - EPOCH) // MICROSECOND
