"""What the contract cannot see: many connections, processes that die, answers that are lost."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import lease_races
import psycopg
import pytest
from pg_server import terminate_backends
from waiting import wait_until

from chong.store.errors import ConcurrencyConflict, Rebucketed, Refused, StoreUnavailable
from chong.store.model import Beat, HoldScope, Note, SharedHold
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import (
    NODE,
    TERM,
    TTL,
    moved,
    node_record,
    queued,
    read,
    request,
    save_of,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

WRITERS = 8
LIMIT = 60.0


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What they give, or raise, when all of them begin together."""
    gate = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        gate.wait(LIMIT)
        try:
            answers[place] = call()
        except BaseException as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    return answers


@pytest.fixture
def stores(database: str) -> Iterator[list[PostgresTaskStore]]:
    """Each as if in a process of its own."""
    with ExitStack() as stack:
        yield [stack.enter_context(PostgresTaskStore(database, deadline=LIMIT)) for _ in range(WRITERS)]


@pytest.fixture
def store(stores: list[PostgresTaskStore]) -> PostgresTaskStore:
    return stores[0]


class TestSaves:
    def test_one_of_eight_connections_saves_a_task(self, stores, store):
        """The others get a conflict, and leave nothing behind."""
        for number in range(1, 21):
            task = stored_queued(store, number)
            news = [moved(task, Status.CANCELLED, ended_at=datetime.now(UTC)) for _ in stores]
            saves = [[save_of(task, new, event_id=f"writer-{place}")] for place, new in enumerate(news)]
            answers = at_once(*(partial(each.save_many, save) for each, save in zip(stores, saves, strict=True)))
            answers = [answer[0] for answer in answers]
            assert sum(answer is None for answer in answers) == 1
            assert sum(isinstance(answer, ConcurrencyConflict) for answer in answers) == WRITERS - 1
            winner = answers.index(None)
            assert store.history(task.id)[-1].event_id == f"writer-{winner}"

    def test_overlapping_batches_do_not_deadlock(self, stores, store):
        """All lock in one order, whatever the order of their saves; each task is written by one of them."""
        tasks = [stored_run(store, number) for number in range(1, 41)]
        shuffled = random.Random(7)

        def batch(place: int) -> Callable[[], list[Exception | None]]:
            order = shuffled.sample(tasks, len(tasks))
            saves = [save_of(task, moved(task, Status.RUNNING), event_id=f"{task.id}:{place}") for task in order]
            return lambda: [
                (save.snapshot.id, verdict) for save, verdict in zip(saves, stores[place].save_many(saves), strict=True)
            ]

        answers = at_once(*(batch(place) for place in range(WRITERS)))
        wins = [task for answer in answers for task, verdict in answer if verdict is None]
        assert sorted(wins) == sorted(task.id for task in tasks)
        assert {read(store, task).version for task in tasks} == {3}

    def test_notes_lock_their_tasks_in_the_order_of_all_others(self, stores, store, database):
        """Somebody who holds the first of two tasks, and wants the second one, is waited for and gets it."""
        first, second = (stored_queued(store, number).id for number in (1, 2))
        notes = [
            Note(task_id=task, kind="forgotten", at=datetime.now(UTC), actor="olga", event_id=f"{task}.note")
            for task in (second, first)
        ]
        lock = "SELECT 1 FROM tasks WHERE id = %s FOR UPDATE"
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as watching:
            other.execute(lock, [first])
            with ThreadPoolExecutor(1) as threads:
                added = threads.submit(stores[1].append, notes)
                wait_until(lambda: watching.execute(waiting).fetchone() == (1,), "its wait")
                other.execute(lock, [second])
                other.commit()
                added.result(LIMIT)
        assert [len(store.notes(task)) for task in (first, second)] == [1, 1]

    def test_an_expiry_waits_for_a_renewal_under_way(self, stores, store, database):
        """A lease that looks past may be renewed in that very moment: what the renewal comes to decides."""
        run = stored_run(store, 1)
        assert store.renew(TERM, [run.id], TTL) == set()
        renewal = "UPDATE renewals SET until = clock_timestamp() + %s * ttl WHERE term = %s"
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as watching:
            watching.execute(renewal, [-1, TERM])
            assert [lease.is_past for lease in store.leases()] == [True]
            other.execute(renewal, [1, TERM])
            with ThreadPoolExecutor(1) as threads:
                expiry = threads.submit(stores[1].expire, [run.id], "expiry", actor="olga")
                wait_until(lambda: watching.execute(waiting).fetchone() == (1,), "its wait")
                other.commit()
                assert expiry.result(LIMIT) == []
        assert read(store, run).status is run.status

    def test_one_of_eight_gets_a_unique_key(self, stores, store):
        """Whether or not the key was free a moment ago."""
        holder = stored_queued(store, 500, unique_key="once")
        end = save_of(holder, moved(holder, Status.CANCELLED, ended_at=datetime.now(UTC)))
        news = [save_of(None, queued(number, unique_key="once")) for number in range(1, WRITERS)]
        first, *rest = at_once(
            lambda: store.save_many([end])[0],
            *(lambda place=place, new=new: stores[place].save_many([new])[0] for place, new in enumerate(news, 1)),
        )
        assert first is None
        assert sum(answer is None for answer in rest) <= 1
        assert {type(answer).__name__ for answer in rest if answer is not None} <= {"UniqueKeyTaken"}


class TestHolds:
    def test_eight_changes_have_eight_revisions(self, stores, store):
        """A node that keeps to the last one keeps to all of them."""
        holds = [SharedHold(scope=HoldScope.BUCKET, target=str(number), by="olga") for number in range(WRITERS)]
        revisions = at_once(*(partial(each.place_hold, hold) for each, hold in zip(stores, holds, strict=True)))
        assert len(set(revisions)) == WRITERS
        assert (store.holds().revision, len(store.holds().holds)) == (max(revisions), WRITERS)

    def test_a_node_that_comes_back_in_that_moment_is_not_forgotten(self, store, database):
        """Whether it is live is looked at behind its own write, which is waited for."""
        store.register_term(term_record(), node_record(ttl=timedelta(0)))
        task = stored_queued(store)
        with psycopg.connect(database) as other, ThreadPoolExecutor(1) as threads:
            other.execute("UPDATE nodes SET seen_at = clock_timestamp(), ttl = '60 s'")
            forgetting = threads.submit(store.forget_node, NODE, "forget.1", actor="olga", reason="burnt")
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
            wait_until(lambda: other.execute(waiting).fetchall(), "a call that waits for the node")
            other.commit()
            with pytest.raises(Refused, match="live"):
                forgetting.result(LIMIT)
        assert read(store, task).status is Status.QUEUED


class TestCommands:
    def test_eight_consumers_claim_each_command_once(self, stores, store):
        """None twice, none missed."""
        run = stored_run(store)
        for number in range(200):
            store.submit_command(request(number, run))

        def consume(place: int) -> list[str]:
            claimed: list[str] = []
            while found := stores[place].claim_commands(NODE, f"term-{place}", lease=TTL, limit=7):
                claimed += [command.id for command in found]
            return claimed

        answers = at_once(*(lambda place=place: consume(place) for place in range(WRITERS)))
        claimed = [command for answer in answers for command in answer]
        # A consumer that met only locked rows has stopped early; what is left is still there for the next look.
        claimed += consume(0)
        assert sorted(claimed) == sorted(f"command-{number}" for number in range(200))

    def test_a_claim_outlives_its_claimers_connection(self, stores, store, database):
        """It is not taken before its lease, and taken after."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        lease = timedelta(seconds=1.5)
        (claimed,) = stores[1].claim_commands(NODE, "dying", lease=lease)
        terminate_backends(database)
        found: list[Any] = []
        end = time.monotonic() + LIMIT
        while not found:
            assert time.monotonic() < end
            try:
                found = stores[2].claim_commands(NODE, "next", lease=TTL)
                early = found and datetime.now(UTC) < claimed.claimed_until
            except StoreUnavailable:
                continue
        assert not early
        assert [command.claimed_by for command in found] == ["next"]

    def test_a_claimer_that_dies_in_its_transaction_has_claimed_nothing(self, store, database):
        """The rows are free at once."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        with psycopg.connect(database) as dying:
            dying.execute("UPDATE commands SET claimed_by = 'dying', claimed_until = now() + '1h', claim_ttl = '1h'")
            assert store.claim_commands(NODE, "next", lease=TTL) == []
            dying.pgconn.finish()
        claimed = wait_until(lambda: store.claim_commands(NODE, "next", lease=TTL), "the command that is free again")
        assert len(claimed) == 1


class TestLeases:
    @pytest.mark.parametrize(
        "races", [lease_races.races_of(300), lease_races.races_of(30, size=20)], ids=["single", "batches"]
    )
    def test_renewal_expiry_adoption_and_end_against_each_other(self, stores, store, races):
        """Whoever comes first to a lease that ran out just now: each run is granted to one of them."""
        lease_races.store_runs(store, races)
        barrier = threading.Barrier(len(lease_races.ACTS), timeout=LIMIT)
        acts = zip(lease_races.ACTS, stores, strict=False)
        outcomes = at_once(*(partial(lease_races.act_in, races, act, each, barrier) for act, each in acts))
        assert not any(isinstance(outcome, Exception) for outcome in outcomes), outcomes
        lease_races.check(store, races, outcomes)

    def test_renewing_runs_beside_their_ends_loses_none(self, stores, store):
        """Ends take their leases away while they are renewed; the rest is renewed."""
        runs = [stored_run(store, number) for number in range(1, 101)]
        ends = [save_of(run, moved(run, Status.SUCCEEDED, ended_at=datetime.now(UTC))) for run in runs[::2]]
        stop = threading.Event()

        def renew() -> int:
            times = 0
            while not stop.is_set():
                stores[1].renew(TERM, [run.id for run in runs], TTL)
                times += 1
            return times

        def finish() -> list[Exception | None]:
            try:
                verdicts = [stores[2].save_many(ends[at : at + 5]) for at in range(0, len(ends), 5)]
            finally:
                stop.set()
            return [verdict for part in verdicts for verdict in part]

        times, verdicts, _ = at_once(
            renew, finish, lambda: stores[3].touch(TERM, [Beat(run.id, datetime.now(UTC)) for run in runs])
        )
        assert times > 0
        assert verdicts == [None] * len(ends)
        assert {lease.task_id for lease in store.leases()} == {run.id for run in runs[1::2]}


def test_a_new_task_waits_for_a_rebucket_and_is_then_refused(stores, store):
    """However late it is: the number is looked at where it cannot change any more."""
    store.record_num_buckets(64)
    stored_queued(store, 1, bucket=0, bucket_key="a")
    is_half, go = threading.Event(), threading.Event()

    def wait(*_: int) -> None:
        is_half.set()
        assert go.wait(LIMIT)

    with ThreadPoolExecutor(2) as threads:
        change = threads.submit(partial(stores[1].rebucket, 96, "change", actor="olga", on_progress=wait))
        assert is_half.wait(LIMIT)
        assert store.deployment().num_buckets == 64  # whoever looks now sees nothing of it yet
        late = [save_of(None, queued(2, bucket=0, bucket_key="a"))]
        saving = threads.submit(partial(stores[2].save_many, late, num_buckets=64))
        with store._calls.connected() as watching:
            waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            wait_until(lambda: watching.execute(waiting).fetchone(), "the save at the lock")
        go.set()
        assert change.result(LIMIT).after == 96
        (verdict,) = saving.result(LIMIT)
    assert isinstance(verdict, Rebucketed)
    assert store.get(task_id(2)) is None


def test_a_restart_in_the_middle_loses_no_accepted_write_and_doubles_none(server):
    """Writers go on through a crash of the server: each save is there once, or was refused for good."""
    with PostgresTaskStore(server.address, deadline=5.0) as store:
        done: list[int] = []
        stop = threading.Event()

        def write(first: int) -> None:
            number = first
            while not stop.is_set():
                save = save_of(None, queued(number))
                while True:
                    try:
                        verdict = store.save_many([save])[0]
                    except StoreUnavailable:
                        continue
                    assert verdict is None, verdict
                    break
                done.append(number)
                number += 4

        threads = [threading.Thread(target=write, args=(first,)) for first in range(1, 5)]
        for thread in threads:
            thread.start()
        for kind in (signal.SIGQUIT, signal.SIGINT, signal.SIGQUIT):
            before = len(done)
            wait_until(lambda before=before: len(done) >= before + 20, "twenty more saves")
            server.restart(kind)
        stop.set()
        for thread in threads:
            thread.join(LIMIT)
        assert len(set(done)) == len(done) >= 60
        assert all(len(store.history(task_id(number))) == 1 for number in done)
