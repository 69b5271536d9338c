"""Real processes at one SQLite file: who wins, and that nothing is lost or done twice."""

import contextlib
import multiprocessing
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from chong.store.errors import ConcurrencyConflict
from chong.store.model import LeaseGrant
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import (
    LATER_TERM,
    NODE,
    TERM,
    moved,
    put,
    queued,
    read,
    request,
    save_of,
    start_of,
    stored_queued,
    stored_run,
    task_id,
)
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status

LIMIT = 60.0
LEASE = timedelta(milliseconds=1)
LONG = timedelta(seconds=30)
ROUNDS = 300
SPAWN = multiprocessing.get_context("spawn")


def run_part(part, path, barrier, answers) -> None:
    """What a child process does: its part, and the answer."""
    try:
        with SqliteTaskStore(path, create=False) as store:
            answers.send(part(store, barrier))
    except BaseException as error:
        barrier.abort()
        answers.send(error)
        raise


def run_all(path: Path, *parts):
    """Every part in a process of its own, all at once; their answers in order."""
    barrier = SPAWN.Barrier(len(parts), timeout=LIMIT)
    pipes = [SPAWN.Pipe(duplex=False) for _ in parts]
    children = [
        SPAWN.Process(target=run_part, args=(part, path, barrier, sender), daemon=True)
        for part, (_, sender) in zip(parts, pipes, strict=True)
    ]
    for child in children:
        child.start()
    answers = [receiver.recv() if receiver.poll(LIMIT) else "silent" for receiver, _ in pipes]
    for child in children:
        child.join(LIMIT)
    assert [0] * len(parts) == [child.exitcode for child in children], answers
    return answers


@pytest.fixture
def store(tmp_path):
    with SqliteTaskStore(tmp_path / "chong.db", checkpoints=True) as store:
        yield store


def cancel(number, task, store, barrier):
    barrier.wait()
    (verdict,) = store.save_many([save_of(task, moved(task, Status.CANCELLED), f"event-{number}")])
    return type(verdict)


def claim_all(term, store, barrier):
    barrier.wait()
    claimed = []
    while commands := store.claim_commands(NODE, term, lease=LONG, limit=3):
        claimed += [command.id for command in commands]
    return claimed


def insert_many(first, store, barrier):
    barrier.wait()
    for number in range(first, first + 50):
        stored_run(store, number)
    return first


def open_only(store, barrier):
    barrier.wait()
    return store.deployment().schema_version


def fire_all(node, store, barrier):
    barrier.wait()
    task = queued()
    planned = [task.created_at + timedelta(seconds=number) for number in range(100)]
    return [at for at in planned if store.claim_firing("a", None, at, node=node, event_id=f"{node}{at}")]


def each_round(act, store, barrier):
    """One answer per task; each round begins for all processes at the same moment."""
    answers = []
    for number in range(ROUNDS):
        barrier.wait()
        answers.append(act(store, task_id(number)))
    return answers


def renew_one(store, task):
    return store.renew(TERM, [task], LONG) == set()


def expire_one(store, task):
    return [lost.id for lost in store.expire([task], f"expire-{task}", actor="judge")] == [task]


def adopt_one(store, task):
    return [kept.id for kept in store.adopt(TERM, LATER_TERM, [task], LONG, f"adopt-{task}")] == [task]


def end_one(store, task):
    with contextlib.suppress(ConcurrencyConflict):
        run = store.get(task)
        put(store, run, moved(run, Status.SUCCEEDED, lease_owner=TERM))
        return True
    return False


def make_store(path, answers, barrier) -> None:
    barrier.wait()
    with SqliteTaskStore(path) as store:
        answers.send(store.deployment().schema_version)


def run_makers(path: Path) -> list[int]:
    barrier = SPAWN.Barrier(4, timeout=LIMIT)
    receiver, sender = SPAWN.Pipe(duplex=False)
    makers = [SPAWN.Process(target=make_store, args=(path, sender, barrier)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(LIMIT)
    assert [maker.exitcode for maker in makers] == [0] * 4
    return [receiver.recv() for _ in makers]


class TestTasks:
    def test_one_of_eight_writers_wins(self, store):
        """The others learn that they are not alone."""
        task = stored_queued(store)
        verdicts = run_all(store._path, *(partial(cancel, number, task) for number in range(8)))
        assert [type(None), *[ConcurrencyConflict] * 7] == sorted(
            verdicts, key=lambda kind: kind.__name__, reverse=True
        )
        assert len(store.history(task.id)) == 2

    def test_what_was_acknowledged_is_there(self, store):
        """Four writers side by side lose no row."""
        run_all(store._path, *(partial(insert_many, first) for first in (1, 101, 201, 301)))
        assert store.stats()[Status.STARTING] == 200
        assert len(store.leases()) == 200

    def test_many_may_make_the_same_new_store(self, tmp_path):
        """Whoever comes first, the schema is made once."""
        stores = run_makers(tmp_path / "new.db")
        assert stores == [SCHEMA_VERSION] * 4


class TestClaims:
    def test_every_command_is_claimed_once(self, store):
        """None twice, none missed."""
        run = stored_run(store)
        wanted = [request(number, run) for number in range(200)]
        for command in wanted:
            store.submit_command(command)
        claims = run_all(store._path, *(partial(claim_all, f"node-a.{number}") for number in range(8)))
        assert sorted(command.id for command in wanted) == sorted(chain(*claims))

    def test_every_firing_is_claimed_once(self, store):
        """Also without a key."""
        claims = run_all(store._path, *(partial(fire_all, f"node-{number}") for number in range(4)))
        claimed = list(chain(*claims))
        assert (len(claimed), len(set(claimed))) == (100, 100)


class TestRaces:
    def test_a_renewed_task_is_never_lost(self, store):
        """A holder, a judge, a heir and an end meet at a lease that is just past; exactly one has its way."""
        for number in range(ROUNDS):
            task = stored_queued(store, number)
            put(store, task, start_of(task), lease=LeaseGrant(TERM, LEASE))
        acts = (renew_one, expire_one, adopt_one, end_one)
        outcomes = run_all(store._path, *(partial(each_round, act) for act in acts))
        for number, (renewed, expired, adopted, ended) in enumerate(zip(*outcomes, strict=True)):
            task = read(store, queued(number))
            finals = [step for step in store.history(task.id) if step.target.is_final]
            assert len(finals) == expired + ended <= 1
            assert not (renewed and expired)
            assert not (adopted and expired)
            assert task.status is (Status.LOST if expired else Status.SUCCEEDED if ended else Status.STARTING)
            assert bool(store.leases([task.id])) is not bool(finals)
