"""What processes do that want the same thing of a store: each says what it was granted."""

import signal
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Barrier

from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, UniqueKeyTaken
from chong.store.model import HoldScope, SharedHold
from chong.store.specimens import NODE, START, moved, queued, save_of, stored_run, task_id
from chong.store.states import Status

LONG = timedelta(seconds=30)
FIRST_OF_ITS_OWN = 1000
"""Numbers of tasks: a process that makes its own ones begins at a multiple of this."""


def do_nothing(_store: TaskStore, _barrier: Barrier) -> None:
    """It ends at once, as if all were done."""


def wait_for_ever(_store: TaskStore, _barrier: Barrier) -> None:
    """Until it is killed."""
    while True:
        signal.pause()


# --- tasks -----------------------------------------------------------------------------------------------------


def cancel_each(writer: int, count: int, store: TaskStore, barrier: Barrier) -> list[type]:
    """The verdict on its save of each of the queued tasks 0 to `count`, on top of what all have seen of it."""
    verdicts = []
    for number in range(count):
        task = queued(number)
        save = save_of(task, moved(task, Status.CANCELLED), f"{writer}-{task.id}")
        barrier.wait()
        (verdict,) = store.save_many([save])
        verdicts.append(type(verdict))
    return verdicts


def check_cancelled(store: TaskStore, verdicts: Sequence[Sequence[type]]) -> None:
    """Each task was written by one of those who wanted to, and all others got a conflict."""
    for number, told in enumerate(zip(*verdicts, strict=True)):
        assert Counter(told) == {type(None): 1, ConcurrencyConflict: len(verdicts) - 1}
        winner = told.index(type(None))
        assert [step.event_id for step in store.history(task_id(number))[1:]] == [f"{winner}-{task_id(number)}"]


def insert_many(first: int, store: TaskStore, barrier: Barrier) -> None:
    barrier.wait()
    for number in range(first, first + 50):
        stored_run(store, number)


def take_keys(writer: int, keys: Sequence[str], store: TaskStore, barrier: Barrier) -> list[bool]:
    """Whether it was the one whose new task got each of these unique keys."""
    taken = []
    for place, key in enumerate(keys, FIRST_OF_ITS_OWN * (writer + 1)):
        barrier.wait()
        (verdict,) = store.save_many([save_of(None, queued(place, unique_key=key))])
        assert verdict is None or isinstance(verdict, UniqueKeyTaken), verdict
        taken.append(verdict is None)
    return taken


# --- commands and firings --------------------------------------------------------------------------------------


def claim_all(term: str, store: TaskStore, barrier: Barrier) -> list[str]:
    """The ids of the commands it was given, until there are none."""
    barrier.wait()
    claimed: list[str] = []
    while commands := store.claim_commands(NODE, term, lease=LONG, limit=3):
        claimed += [command.id for command in commands]
    return claimed


def claim_until_done(term: str, count: int, store: TaskStore, barrier: Barrier) -> list[str]:
    """What this one has ended, of what it has claimed: until all of them are ended."""
    barrier.wait()
    done: list[str] = []
    while sum(command.finished_at is not None for command in store.commands(task_id(1))) < count:
        for command in store.claim_commands(NODE, term, lease=timedelta(seconds=2), limit=3):
            store.complete_command(command.id, term)
            done += [seen.id for seen in store.commands(task_id(1)) if seen.id == command.id and seen.outcome == term]
    return done


def planned(count: int) -> list[datetime]:
    return [START + timedelta(seconds=number) for number in range(count)]


def fire_all(node: str, count: int, store: TaskStore, barrier: Barrier) -> list[datetime]:
    """The instants that it may run; for all the same ones, in the same order."""
    fired = []
    for at in planned(count):
        barrier.wait()
        if store.claim_firing("a", None, at, node=node, event_id=f"{node}{at}"):
            fired.append(at)
    return fired


# --- holds -----------------------------------------------------------------------------------------------------


def place_holds(first: int, count: int, store: TaskStore, barrier: Barrier) -> list[tuple[str, int, int | None]]:
    """Holds buckets of its own, and lifts every second hold again: target, and the revisions of both."""
    barrier.wait()
    told: list[tuple[str, int, int | None]] = []
    for number in range(first, first + count):
        target = str(number)
        placed = store.place_hold(SharedHold(scope=HoldScope.BUCKET, target=target, by="olga"))
        told.append((target, placed, store.lift_hold(HoldScope.BUCKET, target) if number % 2 else None))
    return told


def watch_holds(count: int, store: TaskStore, barrier: Barrier) -> list[tuple[int, set[str]]]:
    """Each revision that a node would hear of, with what is held by it: until as many are held as will be."""
    barrier.wait()
    seen: list[tuple[int, set[str]]] = []
    known = None
    while True:
        found = store.changed_holds(known)
        if found is not None:
            known = found.revision
            seen.append((known, {hold.target for hold in found.holds}))
            if sum(not int(target) % 2 for target in seen[-1][1]) == count:
                return seen
