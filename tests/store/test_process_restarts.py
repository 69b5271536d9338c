"""Real processes at one PostgreSQL that crashes under them, again and again: nothing is lost, nothing done twice."""

import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import contenders
import lease_races
import processes
import psycopg
import pytest
from processes import Patient, run_all

from chong.store.open import open_store
from chong.store.specimens import queued, request, save_of, stored_run
from chong.store.states import Status

CRASHES = 3
WRITERS = 8
TASKS = 100
RACES = 500
BATCHES = 30
BATCH = 20
HOLDS = 40
"""For each who places some."""


@pytest.fixture
def store(own_database) -> Iterator[Any]:
    with open_store(own_database) as store:
        yield Patient(store)


@pytest.fixture
def run(crashing, own_database):
    """As `run_all`; the server crashes whenever another part of `whole` is done by the count of `progress`."""

    def run(parts, progress, whole):
        return run_all(own_database, parts, meanwhile=partial(crash, crashing, progress, whole // (CRASHES + 1)))

    return run


def crash(server, progress, step, children) -> None:
    for number in range(1, CRASHES + 1):
        wanted = number * step
        end = time.monotonic() + processes.LIMIT
        while True:
            exits = [child.exitcode for child in children]  # first: whoever has ended makes no more progress
            done = progress()
            if done >= wanted:
                break
            if any(exits):
                return  # it has failed, and will be asked why
            assert None in exits, f"all have ended with {done} of {wanted} done"
            assert time.monotonic() < end, f"{done} of {wanted} done in time"
            time.sleep(0.005)
        server.restart(signal.SIGQUIT)


def count_firings(address: str) -> int:
    with psycopg.connect(address) as connection:
        return len(connection.execute("SELECT 1 FROM firings").fetchall())


class TestCrashes:
    """Without the progress that they wait for, the test fails instead of going on for ever."""

    def test_processes_that_end_before_it(self, run):
        """With 0: nobody of them has failed."""
        with pytest.raises(AssertionError, match="all have ended with 0 of 1 done"):
            run([contenders.do_nothing] * 2, lambda: 0, CRASHES + 1)

    def test_processes_that_go_on_without_it(self, run, monkeypatch):
        """For longer than a step may take."""
        monkeypatch.setattr(processes, "LIMIT", 1.0)
        with pytest.raises(AssertionError, match=r"^0 of 1 done in time"):
            run([contenders.wait_for_ever], lambda: 0, CRASHES + 1)


class TestTasks:
    def test_one_of_eight_writers_wins(self, run, store):
        """Of each task. Whoever has lost the answer hears it the second time."""
        store.save_many([save_of(None, queued(number)) for number in range(TASKS)])
        writers = (partial(contenders.cancel_each, number, TASKS) for number in range(WRITERS))
        verdicts = run(writers, lambda: store.stats()[Status.CANCELLED], TASKS)
        contenders.check_cancelled(store, verdicts)

    def test_one_of_eight_gets_each_unique_key(self, run, store):
        """Also whoever has lost the answer."""
        keys = [f"once-{number}" for number in range(TASKS)]
        takers = (partial(contenders.take_keys, number, keys) for number in range(WRITERS))
        taken = run(takers, lambda: store.stats()[Status.QUEUED], TASKS)
        assert [sum(each) for each in zip(*taken, strict=True)] == [1] * TASKS
        assert store.stats()[Status.QUEUED] == TASKS


class TestClaims:
    def test_every_command_is_claimed(self, run, store):
        """Never by two at a time; a claim whose answer was lost is there again when its lease is over."""
        task = stored_run(store)
        wanted = [request(number, task) for number in range(TASKS)]
        for command in wanted:
            store.submit_command(command)
        claimers = (partial(contenders.claim_until_done, f"node-a.{number}", TASKS) for number in range(WRITERS))
        ended = lambda: sum(command.finished_at is not None for command in store.commands(task.id))  # noqa: E731
        claims = list(chain(*run(claimers, ended, TASKS)))
        assert sorted(claims) == sorted(command.id for command in wanted)

    def test_every_firing_is_claimed_once(self, run, own_database):
        """Whoever has lost the answer is told again that it is his."""
        claimers = (partial(contenders.fire_all, f"node-{number}", TASKS) for number in range(WRITERS))
        claims = run(claimers, partial(count_firings, own_database), TASKS)
        assert sorted(chain(*claims)) == contenders.planned(TASKS)


class TestHolds:
    def test_who_keeps_to_a_revision_keeps_to_every_change_before_it(self, run, store):
        """A change that was asked for again is there once; none is missed by whoever looks for a new revision."""
        placers = [partial(contenders.place_holds, HOLDS * number, HOLDS) for number in range(4)]
        kept = len(placers) * HOLDS // 2
        watchers = [partial(contenders.watch_holds, kept)] * 2
        progress = lambda: sum(not int(hold.target) % 2 for hold in store.holds().holds)  # noqa: E731
        *told, one, two = run([*placers, *watchers], progress, kept)
        changes = list(chain(*told))
        assert {hold.target for hold in store.holds().holds} == {target for target, _, end in changes if end is None}
        for revision, held in chain(one, two):
            assert held >= {target for target, placed, end in changes if end is None and placed <= revision}
            assert held.isdisjoint({target for target, _, end in changes if end is not None and end <= revision})


class TestLeases:
    @pytest.mark.parametrize(
        "races", [lease_races.races_of(RACES), lease_races.races_of(BATCHES, size=BATCH)], ids=["single", "batches"]
    )
    def test_each_run_is_granted_to_one_of_them(self, run, store, races):
        """To a holder, a judge, an heir or an end: whoever has lost the answer hears it the second time."""
        lease_races.store_runs(store, races)
        terms = {race.term for race in races}
        whole = sum(race.size for race in races)
        untouched = lambda: sum(lease.term in terms and lease.ttl == lease_races.PAST for lease in store.leases())  # noqa: E731
        acts = (partial(lease_races.act_in, races, act) for act in lease_races.ACTS)
        lease_races.check(store, races, run(acts, lambda: whole - untouched(), whole))
