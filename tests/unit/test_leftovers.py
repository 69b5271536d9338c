"""Runs of former terms that may still live somewhere, whatever keeps a term from looking at them."""

import fcntl
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest
from no_descriptors import no_descriptors
from structlog import get_logger
from structlog.testing import capture_logs
from waiting import wait_until

from chong.store.errors import StoreUnavailable
from chong.store.model import LeaseGrant
from chong.store.specimens import (
    LATER_TERM,
    TERM,
    TTL,
    node_record,
    put,
    start_of,
    stored_queued,
    task_id,
    term_record,
)
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status
from chong.supervisor.leftovers import Leftovers
from chong.supervisor.paths import Paths
from chong.supervisor.reconcile import Judge
from chong.supervisor.recurring import Recurring
from chong.supervisor.row_faults import RowFaults
from chong.supervisor.scene import Scene

SHORT = timedelta(milliseconds=20)


class Store(SqliteTaskStore):
    """As a supervisor has it; it does not answer as long as it is told not to."""

    is_away = False
    looks_at_terms = 0

    def leases(self, *args, **more):
        if self.is_away:
            raise StoreUnavailable("away")
        return super().leases(*args, **more)

    def terms(self, *args, **more):
        self.looks_at_terms += 1
        return super().terms(*args, **more)

    def before_expiring(self):
        """What another does just before."""

    def expire(self, *args, **more):
        self.before_expiring()
        return super().expire(*args, **more)


class World:
    """A term that looks at runs which a forkserver may hold; a test takes look after look."""

    def __init__(self, store, path):
        self.store = store
        self.paths = Paths(path / "state", path / "run")
        self.paths.state.mkdir()
        self.lost, self.dead, self._next = [], [], []
        self._loop = SimpleNamespace(call=lambda act: act(), later=lambda _, act: self._next.append(act))
        store.register_term(term_record(), node_record())

    def run(self, number, ttl=SHORT):
        """Of the former term, which does not renew its lease."""
        task = stored_queued(self.store, number)
        return put(self.store, task, start_of(task), lease=LeaseGrant(TERM, ttl))

    def begin(self, *runs):
        """The first look. The third generation was silent when the term began."""
        scene = Scene(
            term=term_record(LATER_TERM),
            node=node_record(LATER_TERM),
            owned_buckets=None,
            num_buckets=None,
            ttl=TTL,
            paths=self.paths,
            attached=frozenset(),
            served=frozenset(),
            silent=frozenset({3}),
            accepted={},
            stored=frozenset(),
        )
        Leftovers(
            self._loop,
            SimpleNamespace(do=lambda act: act()),
            Judge(self.store, LATER_TERM),
            scene,
            frozenset(run.id for run in runs),
            every=0,
            on_lost=lambda tasks: self.lost.extend(task.id for task in tasks),
            on_dead=lambda found: self.dead.extend(task.id for task in found.dead),
            trouble=Recurring(get_logger(), "leftovers_not_judged", "leftovers_judged"),
        ).begin()

    def look(self):
        """Once more, if there is anything left; whether there was."""
        due, self._next = self._next, []
        for act in due:
            act()
        return bool(due)

    def look_until(self, condition):
        wait_until(lambda: self.look() and condition(), "what is looked for")


@pytest.fixture
def world(tmp_path):
    with Store(tmp_path / "chong.db", on_unreadable=RowFaults(get_logger()).tell) as store:
        yield World(store, tmp_path)


@pytest.fixture
def other(world, tmp_path):
    """Somebody else, who writes what chong never does."""
    with closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as connection:
        yield connection.execute


@pytest.fixture
def lock(world):
    """The forkserver lives, and holds it."""
    with world.paths.generation_lock(3).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield held


def told(lines):
    return [(line["event"], line["times"]) for line in lines if line["event"].startswith("leftovers")]


def test_without_a_descriptor_nobody_looks_which_is_told_once(world, lock):
    """The run is neither forgotten nor judged meanwhile."""
    run = world.run(1)
    with capture_logs() as lines:
        with no_descriptors():
            world.begin(run)
            world.look()
            world.look()
        world.look_until(lambda: world.lost)
    assert told(lines) == [("leftovers_not_judged", 1), ("leftovers_judged", 3)]
    assert "Too many open files" in lines[0]["error"]
    assert (world.lost, world.look()) == ([run.id], False)


def test_a_store_that_is_away_is_told_once(world, lock):
    """Each look finds it so, once a second; its silence proves nothing against the holder."""
    run = world.run(1)
    world.store.is_away = True
    with capture_logs() as lines:
        world.begin(run)
        world.look()
        world.look()
        assert world.lost == []
        world.store.is_away = False
        world.look_until(lambda: world.lost)
    assert told(lines) == [("leftovers_not_judged", 1), ("leftovers_judged", 3)]


def test_a_store_that_was_away_proves_nothing_against_a_holder(world, lock):
    """It could not renew meanwhile: a lease that is found past is watched anew, and its holder gets the time to."""
    ttl = timedelta(seconds=0.3)
    run = world.run(1, ttl)
    world.begin(run)
    seen_by = time.monotonic()
    world.store.is_away = True
    world.look()
    wait_until(lambda: time.monotonic() > seen_by + ttl.total_seconds(), "a lease of silence")
    world.store.is_away = False
    world.look()
    assert world.store.renew(TERM, [run.id], TTL) == set()
    world.look()
    assert (world.lost, world.store.get(run.id).status) == ([], Status.STARTING)


def test_a_run_that_is_lost_and_cannot_be_read_is_told_once_it_can(world, lock, other):
    """The store ends it by its lease, and nothing more is known of it; the others do not wait for that."""
    bad, good = world.run(1), world.run(2)
    other("UPDATE tasks SET tags = '{}' WHERE id = ?", (bad.id,))
    with capture_logs() as lines:
        world.begin(bad, good)
        world.look_until(lambda: world.lost)
        assert other("SELECT status FROM tasks").fetchall() == [("lost",), ("lost",)]
        world.look()
        assert world.lost == [good.id]
        other("UPDATE tasks SET tags = '[]'")
        world.look_until(lambda: len(world.lost) == 2)
    assert [event for event, _ in told(lines)] == ["leftovers_not_judged", "leftovers_judged"]
    assert (world.lost, world.look()) == ([good.id, bad.id], False)


def test_a_holder_that_renews_at_the_last_moment_is_watched_anew(world, lock):
    """The store judges by the row as it stands then."""
    run = world.run(1)
    world.store.before_expiring = lambda: world.store.renew(TERM, [run.id], TTL)
    world.begin(run)
    world.look_until(lambda: world.store.leases([run.id])[0].renewals)
    del world.store.before_expiring
    assert world.look()
    world.store.renew(TERM, [run.id], SHORT)
    world.look_until(lambda: world.lost)
    assert (world.lost, world.look()) == ([run.id], False)


def test_a_holder_that_renews_is_watched_anew_though_its_run_cannot_be_read(world, lock, other):
    """Else it would be lost as soon as the store's clock jumps."""
    run = world.run(1)
    other("UPDATE tasks SET tags = '{}'")
    world.store.before_expiring = lambda: world.store.renew(TERM, [run.id], TTL)
    world.begin(run)
    world.look_until(lambda: world.store.leases([run.id])[0].renewals)
    del world.store.before_expiring
    other("UPDATE leases SET until = 1")
    world.look()
    assert world.look()
    assert other("SELECT status FROM tasks").fetchall() == [("starting",)]


def test_what_others_have_ended_is_looked_at_no_more(world, lock):
    """Neither returned nor under a lease, though nothing is wrong with it."""
    run = world.run(1)
    seen = []

    def ended_before():
        del world.store.before_expiring
        seen.extend(Judge(world.store, "another").expire([run.id], "another"))

    world.store.before_expiring = ended_before
    world.begin(run)
    wait_until(lambda: not world.look(), "the last look")
    assert ([task.id for task in seen], world.lost) == ([run.id], [])


def test_a_lease_that_cannot_be_read_is_told_and_its_run_is_not_forgotten(world, lock, other):
    """The others are judged beside it; once it is mended, it is judged as they were."""
    bad, good = world.run(1), world.run(2)
    [(before,)] = other("SELECT until FROM leases WHERE task_id = ?", (bad.id,))
    other("UPDATE leases SET until = 'noon' WHERE task_id = ?", (bad.id,))
    with capture_logs() as lines:
        world.begin(bad, good)
        world.look_until(lambda: world.lost)
        assert world.lost == [good.id]
        other("UPDATE leases SET until = ? WHERE task_id = ?", (before, bad.id))
        world.look_until(lambda: len(world.lost) == 2)
    (first, _), (last, _) = told(lines)
    assert (first, last, world.lost) == ("leftovers_not_judged", "leftovers_judged", [good.id, bad.id])
    assert f"store: leases {bad.id}, column until" in lines[0]["error"]


@pytest.mark.parametrize("change", ["tasks SET flags = '{}' WHERE id", "transitions SET at = 'noon' WHERE task_id"])
def test_a_row_of_a_run_whose_forkserver_has_gone_costs_no_other_run(world, other, change):
    """The others are taken over at once, with what is left of them; that one is looked at until it can be read."""
    bad, good = world.run(1, TTL), world.run(2, TTL)
    with capture_logs() as lines:
        other("CREATE TABLE kept AS SELECT * FROM " + change.split()[0])
        other(f"UPDATE {change} = '{task_id(1)}'")
        world.begin(bad, good)
        assert world.dead == [good.id]
        table, column = change.split()[0], change.split()[2]
        key = change.split()[-1]
        other(f"UPDATE {table} SET {column} = kept.{column} FROM kept WHERE kept.{key} = {table}.{key}")
        world.look_until(lambda: len(world.dead) == 2)
        world.look()
    assert told(lines) == [("leftovers_not_judged", 1), ("leftovers_judged", 1)]
    assert (world.dead, world.lost) == ([good.id, bad.id], [])


def test_terms_that_cannot_be_read_prove_nothing_and_the_leases_judge(world, other):
    """Whether the holder is dead is not known by them; its lease runs out all the same."""
    runs = [world.run(number) for number in range(1, 9)]
    other("UPDATE terms SET started_at = 'noon'")
    with capture_logs() as lines:
        world.begin(*runs)
        assert world.store.looks_at_terms == 1  # whomever it is asked for, it is the same row
        world.look_until(lambda: len(world.lost) == len(runs))
    assert (told(lines)[0], world.dead) == (("leftovers_not_judged", 1), [])
