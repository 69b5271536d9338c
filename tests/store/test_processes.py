"""Real processes at one store: who wins, and that nothing is lost or done twice."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import contenders
import lease_races
import pytest
from processes import CONTEXT, LIMIT, run_all

from chong.store.contract import TaskStore
from chong.store.open import open_store
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import queued, request, save_of, stored_run
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status

WRITERS = 8
TASKS = 50
KEYS = 50
FIRINGS = 100
RACES = 1000
BATCHES = 60
BATCH = 50
"""Runs of a node."""


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


def make_store(path, answers, barrier) -> None:
    barrier.wait()
    with SqliteTaskStore(path) as store:
        answers.send(store.deployment().schema_version)


def run_makers(path: Path) -> list[int]:
    barrier = CONTEXT.Barrier(4, timeout=LIMIT)
    receiver, sender = CONTEXT.Pipe(duplex=False)
    makers = [CONTEXT.Process(target=make_store, args=(path, sender, barrier)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(LIMIT)
    assert [maker.exitcode for maker in makers] == [0] * 4
    return [receiver.recv() for _ in makers]


class TestTasks:
    def test_one_of_eight_writers_wins(self, place, store):
        """Of each task; the others learn that they are not alone, and leave nothing behind."""
        store.save_many([save_of(None, queued(number)) for number in range(TASKS)])
        verdicts = run_all(place, (partial(contenders.cancel_each, number, TASKS) for number in range(WRITERS)))
        contenders.check_cancelled(store, verdicts)

    def test_one_of_eight_gets_each_unique_key(self, place, store):
        """The others are told that it is taken."""
        keys = [f"once-{number}" for number in range(KEYS)]
        taken = run_all(place, (partial(contenders.take_keys, number, keys) for number in range(WRITERS)))
        assert [sum(each) for each in zip(*taken, strict=True)] == [1] * KEYS
        assert store.stats()[Status.QUEUED] == KEYS

    def test_what_was_acknowledged_is_there(self, place, store):
        """Four writers side by side lose no row."""
        run_all(place, (partial(contenders.insert_many, first) for first in (1, 101, 201, 301)))
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
        claims = run_all(place, (partial(contenders.claim_all, f"node-a.{number}") for number in range(WRITERS)))
        assert sorted(command.id for command in wanted) == sorted(chain(*claims))

    def test_every_firing_is_claimed_once(self, place, store):
        """Also without a key."""
        claims = run_all(place, (partial(contenders.fire_all, f"node-{number}", FIRINGS) for number in range(4)))
        assert sorted(chain(*claims)) == contenders.planned(FIRINGS)


class TestLeases:
    """A holder, a judge, an heir and an end meet at runs whose leases are just past."""

    @pytest.mark.parametrize(
        "races", [lease_races.races_of(RACES), lease_races.races_of(BATCHES, size=BATCH)], ids=["single", "batches"]
    )
    def test_each_run_is_granted_to_one_of_them(self, place, store, races):
        """Whether each wants one, or a node all of its runs and the others overlapping parts of these."""
        lease_races.store_runs(store, races)
        outcomes = run_all(place, (partial(lease_races.act_in, races, act) for act in lease_races.ACTS))
        lease_races.check(store, races, outcomes)
