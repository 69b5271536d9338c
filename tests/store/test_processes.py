"""Real processes at one store: who wins, and that nothing is lost or done twice; also when its server is restarted."""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from pg_server import Server

from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, StoreUnavailable
from chong.store.model import LeaseGrant
from chong.store.open import open_store
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
CRASHED_ROUNDS = 100
CRASHES = 3
STEP = 15
"""How much has to be done between two crashes."""
SPAWN = multiprocessing.get_context("spawn")


class Patient:
    """A store whose calls are made again as long as it is away: a write that was done is done."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def __getattr__(self, name):
        method = getattr(self._store, name)

        def call(*args, **facts):
            end = time.monotonic() + LIMIT
            while True:
                try:
                    return method(*args, **facts)
                except StoreUnavailable:
                    if time.monotonic() > end:
                        raise

        return call


def run_part(part, place, barrier, answers) -> None:
    """What a child process does: its part, and the answer."""
    try:
        with open_store(place, create=False) as reached:
            store = Patient(reached)
            answers.send(part(store, barrier))
    except BaseException as error:
        barrier.abort()
        answers.send(error)
        raise


def run_all(place: str, *parts, meanwhile=None):
    """Every part in a process of its own, all at once; their answers in order."""
    barrier = SPAWN.Barrier(len(parts), timeout=LIMIT)
    pipes = [SPAWN.Pipe(duplex=False) for _ in parts]
    children = [
        SPAWN.Process(target=run_part, args=(part, place, barrier, sender), daemon=True)
        for part, (_, sender) in zip(parts, pipes, strict=True)
    ]
    for child in children:
        child.start()
    if meanwhile is not None:
        meanwhile(children)
    answers = [receiver.recv() if receiver.poll(LIMIT) else "silent" for receiver, _ in pipes]
    for child in children:
        child.join(LIMIT)
    assert [0] * len(parts) == [child.exitcode for child in children], answers
    return answers


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path) -> str:
    """A store's address."""
    if request.param == "sqlite":
        return str(tmp_path / "chong.db")
    return request.getfixturevalue("database")


@pytest.fixture
def store(place) -> Iterator[TaskStore]:
    with open_store(place, serving=True) as store:
        yield store


def cancel(number, task, store, barrier):
    barrier.wait()
    (verdict,) = store.save_many([save_of(task, moved(task, Status.CANCELLED), f"event-{number}")])
    return type(verdict)


def cancel_one(writer, store, task):
    old = store.get(task)
    if old.status.is_final:
        return False
    (verdict,) = store.save_many([save_of(old, moved(old, Status.CANCELLED), f"{writer}-{task}")])
    assert verdict is None or isinstance(verdict, ConcurrencyConflict)
    return verdict is None


def claim_until_done(term, count, store, barrier):
    """What this one has ended, of what it has claimed: until all of them are ended."""
    barrier.wait()
    done = []
    while sum(command.finished_at is not None for command in store.commands(task_id(1))) < count:
        for command in store.claim_commands(NODE, term, lease=timedelta(seconds=2), limit=3):
            store.complete_command(command.id, term)
            done += [seen.id for seen in store.commands(task_id(1)) if seen.id == command.id and seen.outcome == term]
    return done


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


def fire_all(node, store, barrier):
    barrier.wait()
    task = queued()
    planned = [task.created_at + timedelta(seconds=number) for number in range(100)]
    return [at for at in planned if store.claim_firing("a", None, at, node=node, event_id=f"{node}{at}")]


def each_round(act, rounds, store, barrier):
    """One answer per task; each round begins for all processes at the same moment."""
    answers = []
    for number in range(rounds):
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
    run = store.get(task)
    if run.status.is_final:
        return False
    (verdict,) = store.save_many([save_of(run, moved(run, Status.SUCCEEDED, lease_owner=TERM), f"end-{task}")])
    assert verdict is None or isinstance(verdict, ConcurrencyConflict)
    return verdict is None


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
    def test_one_of_eight_writers_wins(self, place, store):
        """The others learn that they are not alone."""
        task = stored_queued(store)
        verdicts = run_all(place, *(partial(cancel, number, task) for number in range(8)))
        assert [type(None), *[ConcurrencyConflict] * 7] == sorted(
            verdicts, key=lambda kind: kind.__name__, reverse=True
        )
        assert len(store.history(task.id)) == 2

    def test_what_was_acknowledged_is_there(self, place, store):
        """Four writers side by side lose no row."""
        run_all(place, *(partial(insert_many, first) for first in (1, 101, 201, 301)))
        assert store.stats()[Status.STARTING] == 200
        assert len(store.leases()) == 200

    def test_many_may_make_the_same_new_store(self, tmp_path):
        """Whoever comes first, the schema is made once."""
        stores = run_makers(tmp_path / "new.db")
        assert stores == [SCHEMA_VERSION] * 4


class TestClaims:
    def test_every_command_is_claimed_once(self, place, store):
        """None twice, none missed."""
        run = stored_run(store)
        wanted = [request(number, run) for number in range(200)]
        for command in wanted:
            store.submit_command(command)
        claims = run_all(place, *(partial(claim_all, f"node-a.{number}") for number in range(8)))
        assert sorted(command.id for command in wanted) == sorted(chain(*claims))

    def test_every_firing_is_claimed_once(self, place, store):
        """Also without a key."""
        claims = run_all(place, *(partial(fire_all, f"node-{number}") for number in range(4)))
        claimed = list(chain(*claims))
        assert (len(claimed), len(set(claimed))) == (100, 100)


ACTS = (renew_one, expire_one, adopt_one, end_one)


def make_past_runs(store, count):
    for number in range(count):
        task = stored_queued(store, number)
        put(store, task, start_of(task), lease=LeaseGrant(TERM, LEASE))


def check_races(store, outcomes):
    """Each task was ended by at most one of them, and stands where that one has left it."""
    for number, (_, expired, adopted, ended) in enumerate(zip(*outcomes, strict=True)):
        task = read(store, queued(number))
        trail = store.history(task.id)
        finals = [step for step in trail if step.target.is_final]
        assert len(finals) == expired + ended <= 1
        assert not (adopted and expired)
        assert task.status is (Status.LOST if expired else Status.SUCCEEDED if ended else Status.STARTING)
        assert trail[-1].target is task.status
        leases = store.leases([task.id])
        assert bool(leases) is not bool(finals)
        assert [lease.term for lease in leases] == [LATER_TERM if adopted else TERM] * len(leases)


class TestRaces:
    def test_of_a_holder_a_judge_an_heir_and_an_end_one_has_its_way(self, place, store):
        """They meet at a lease that is just past."""
        make_past_runs(store, ROUNDS)
        outcomes = run_all(place, *(partial(each_round, act, ROUNDS) for act in ACTS))
        check_races(store, outcomes)
        if isinstance(store, SqliteTaskStore):  # elsewhere a lease that somebody holds is not renewed, nor missed
            assert not any(renewed and expired for renewed, expired, *_ in zip(*outcomes, strict=True))


class TestRestarts:
    """The server crashes under them, again and again."""

    @pytest.fixture
    def server(self) -> Iterator[Server]:
        with Server() as server:
            yield server

    @pytest.fixture
    def store(self, server) -> Iterator[TaskStore]:
        with open_store(server.address) as store:
            yield store

    @staticmethod
    def crash(server, progress, children) -> None:
        """Each time after they have got on with it."""
        for _ in range(CRASHES):
            before = progress()
            while progress() < before + STEP:
                if not any(child.is_alive() for child in children):
                    return
                time.sleep(0.01)
            server.restart(signal.SIGQUIT)

    def test_the_races_have_one_winner_each(self, server, store):
        """Whoever has lost an answer hears it the second time."""
        make_past_runs(store, CRASHED_ROUNDS)
        acts = (partial(each_round, act, CRASHED_ROUNDS) for act in ACTS)
        steady = Patient(store)
        progress = lambda: CRASHED_ROUNDS - sum(lease.term == TERM for lease in steady.leases())  # noqa: E731
        outcomes = run_all(server.address, *acts, meanwhile=partial(self.crash, server, progress))
        check_races(steady, outcomes)

    def test_one_of_four_writers_wins(self, server, store):
        """Of each task."""
        for number in range(CRASHED_ROUNDS):
            stored_queued(store, number)
        writers = (partial(each_round, partial(cancel_one, number), CRASHED_ROUNDS) for number in range(4))
        steady = Patient(store)
        progress = lambda: steady.stats()[Status.CANCELLED]  # noqa: E731
        outcomes = run_all(server.address, *writers, meanwhile=partial(self.crash, server, progress))
        assert [sum(wins) for wins in zip(*outcomes, strict=True)] == [1] * CRASHED_ROUNDS
        assert {len(steady.history(task_id(number))) for number in range(CRASHED_ROUNDS)} == {2}

    def test_every_command_is_claimed(self, server, store):
        """Never by two at a time; a claim whose answer was lost is there again when its lease is over."""
        run = stored_run(store)
        wanted = [request(number, run) for number in range(CRASHED_ROUNDS)]
        for command in wanted:
            store.submit_command(command)
        claimers = (partial(claim_until_done, f"node-a.{number}", len(wanted)) for number in range(4))
        steady = Patient(store)
        progress = lambda: sum(command.finished_at is not None for command in steady.commands(run.id))  # noqa: E731
        meanwhile = partial(self.crash, server, progress)
        claims = list(chain(*run_all(server.address, *claimers, meanwhile=meanwhile)))
        assert sorted(claims) == sorted(command.id for command in wanted)
