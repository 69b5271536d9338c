"""Races in which a renewal, a judgement, an adoption and an end of the same runs meet, and what has to be true then."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Barrier
from typing import NamedTuple

from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict
from chong.store.model import LeaseGrant, TaskSnapshot
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.store.specimens import NODE, moved, queued, save_of, start_of, task_id
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status

PAST = timedelta(milliseconds=1)
LONG = timedelta(seconds=60)
AT_ONCE = 500
"""How many runs are stored in one call."""


@dataclass(frozen=True)
class Race:
    """Runs of a term of its own, whose leases are past when it begins."""

    number: int
    size: int

    @property
    def term(self) -> str:
        return f"{NODE}.{self.number}"

    @property
    def heir(self) -> str:
        return f"{NODE}.{self.number}.next"

    @property
    def ids(self) -> list[str]:
        first = self.number * self.size
        return [task_id(number) for number in range(first, first + self.size)]

    def starts(self) -> list[TaskSnapshot]:
        """Its runs as they are stored before it."""
        first = self.number * self.size
        return [start_of(queued(number, lease_owner=self.term)) for number in range(first, first + self.size)]


class Deed(NamedTuple):
    """What one of them asked for in a race, what of it it was granted, and when (by the monotonic clock)."""

    asked: frozenset[str]
    won: frozenset[str]
    began: float
    ended: float

    def was_behind(self, other: "Deed") -> bool:
        return other.ended < self.began


Act = Callable[[TaskStore, Race, list[str]], set[str]]


def renew(store: TaskStore, race: Race, ids: list[str]) -> set[str]:
    return set(ids) - store.renew(race.term, ids, LONG)


def expire(store: TaskStore, race: Race, ids: list[str]) -> set[str]:
    return {task.id for task in store.expire(ids, f"expire-{race.number}", actor="judge")}


def adopt(store: TaskStore, race: Race, ids: list[str]) -> set[str]:
    return {task.id for task in store.adopt(race.term, race.heir, ids, LONG, f"adopt-{race.number}")}


def end(store: TaskStore, race: Race, ids: list[str]) -> set[str]:
    """In every second race on top of what it reads, so that not the version but the lease tells it that it has lost."""
    runs = {task.id: task for task in race.starts()}
    if race.number % 2:
        runs = {task.id: task for task in all_tasks(store, TaskQuery(ids=frozenset(ids)))}
    open_runs = [runs[task_id] for task_id in ids if not runs[task_id].status.is_final]
    ends = [moved(run, Status.SUCCEEDED, lease_owner=race.term) for run in open_runs]
    verdicts = store.save_many(
        [save_of(old, new, f"end-{new.id}") for old, new in zip(open_runs, ends, strict=True)],
    )
    assert {type(verdict) for verdict in verdicts} <= {type(None), ConcurrencyConflict}
    return {run.id for run, verdict in zip(open_runs, verdicts, strict=True) if verdict is None}


ACTS: tuple[Act, ...] = (renew, expire, adopt, end)


def races_of(count: int, *, size: int = 1) -> list[Race]:
    return [Race(number, size) for number in range(count)]


def store_runs(store: TaskStore, races: Sequence[Race]) -> None:
    """All of them started, with leases that are past by the time the first race begins; half of them renewed before."""
    runs = [run for race in races for run in race.starts()]
    for first in range(0, len(runs), AT_ONCE):
        part = runs[first : first + AT_ONCE]
        waiting = [queued(int(run.id[:8], 16), lease_owner=run.lease_owner) for run in part]
        starts = [
            save_of(old, new, lease=LeaseGrant(str(new.lease_owner), PAST))
            for old, new in zip(waiting, part, strict=True)
        ]
        assert store.save_many([save_of(None, task) for task in waiting]) == [None] * len(part)
        assert store.save_many(starts) == [None] * len(part)
    for race in races:
        if race.number // 2 % 2:
            assert store.renew(race.term, race.ids, PAST) == set()


def act_in(races: Sequence[Race], act: Act, store: TaskStore, barrier: Barrier) -> list[Deed]:
    """One deed for each race; a node renews all that it has, the others ask for a part, in an order of their own."""
    deeds = []
    for race in races:
        chance = random.Random(f"{act.__name__} {race.number}")
        ids = chance.sample(race.ids, race.size if act is renew else -(-race.size * 2 // 3))
        barrier.wait()
        began = time.monotonic()
        won = act(store, race, ids)
        deeds.append(Deed(frozenset(ids), frozenset(won), began, time.monotonic()))
    return deeds


def check(store: TaskStore, races: Sequence[Race], outcomes: Sequence[Sequence[Deed]]) -> None:
    """Whoever was granted a run was the only one, and it stands where that one has left it."""
    tasks = {task.id: task for task in all_tasks(store, TaskQuery(node=NODE))}
    holders = {lease.task_id: lease.term for lease in store.leases()}
    for race, *deeds in zip(races, *outcomes, strict=True):
        for run in race.ids:
            winners = [act for act, deed in zip(ACTS, deeds, strict=True) if act is not renew and run in deed.won]
            check_run(race, run, winners, deeds, strictly=isinstance(store, SqliteTaskStore))
            check_stored(store, race, tasks[run], holders.get(run), winners)
    # Else it was no race.
    assert all(any(deed.won for deed in deeds) for deeds in outcomes)


def check_run(race: Race, run: str, winners: list[Act], deeds: Sequence[Deed], *, strictly: bool) -> None:
    """strictly: no lease is passed over by a renewal because somebody holds it at this moment."""
    renewal, judgement, adoption, ending = deeds
    assert len(winners) <= 1, (race, run)
    if run in adoption.asked | ending.asked:  # they may have it whether its lease is past or not
        assert winners, (race, run)
    if expire in winners:
        assert not judgement.was_behind(renewal), (race, run)
        assert not (strictly and run in renewal.won), (race, run)
    if run in renewal.won:
        assert not any(renewal.was_behind(deeds[ACTS.index(winner)]) for winner in winners), (race, run)


def check_stored(store: TaskStore, race: Race, task: TaskSnapshot, holder: str | None, winners: list[Act]) -> None:
    status = {expire: Status.LOST, end: Status.SUCCEEDED}.get(*winners or [renew], Status.STARTING)
    assert (task.status, task.version) == (status, 2 + len(winners)), (race, task)
    assert holder == (None if status.is_final else race.heir if winners else race.term), (race, task)
    trail = [step.target for step in store.history(task.id)]
    assert trail == [Status.QUEUED, Status.STARTING, *([status] if status.is_final else [])], (race, task)
