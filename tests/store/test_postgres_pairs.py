"""Two calls at one time, one of them held before each of its statements in turn: neither ever deadlocks the other."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import scalar_row
from waiting import LIMIT, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.errors import Refused
from chong.store.model import HoldScope, SharedHold
from chong.store.partitions import keep_months, months_ahead
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import (
    NODE,
    TERM,
    TTL,
    moved,
    node_record,
    save_of,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

OLD, NEW = BucketPolicy(64), BucketPolicy(96)
KEY = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) != NEW.bucket_of(key))
LAST_YEAR = datetime.now(UTC) - timedelta(days=400)

Call = Callable[[], object]


class Halt:
    """Holds the transaction of the one thread that has it, before a statement of it."""

    current = threading.local()

    def __init__(self, place: int) -> None:
        self._before = place
        self.is_reached = threading.Event()
        self._go = threading.Event()

    def run(self, call: Call) -> object:
        self.current.halt = self
        return call()

    def pass_by(self, flush: Call) -> None:
        self._before -= 1
        if self._before == 0:
            flush()
            self.is_reached.set()
            assert self._go.wait(LIMIT)

    def release(self) -> None:
        self._go.set()


@pytest.fixture
def halting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement passes by the halt of its thread."""
    plain = psycopg.Cursor.execute

    def passing(real: Any) -> Any:
        def send(self: Any, *words: Any, **more: Any) -> Any:
            halt = getattr(Halt.current, "halt", None)
            if halt is not None:
                # What went before may still be on its way to the server.
                halt.pass_by(lambda: plain(self.connection.cursor(), "SELECT 1").fetchone())
            return real(self, *words, **more)

        return send

    for kind in ("execute", "executemany"):
        monkeypatch.setattr(psycopg.Cursor, kind, passing(getattr(psycopg.Cursor, kind)))


def save(store: PostgresTaskStore) -> Call:
    task = stored_queued(store, 1, bucket=OLD.bucket_of(KEY), bucket_key=KEY)
    saves = [save_of(task, moved(task, Status.CANCELLED, ended_at=datetime.now(UTC)))]
    return lambda: store.save_many(saves)


def prune(store: PostgresTaskStore) -> Call:
    stored_end(store, 2)
    records = store.prunable(timedelta(0))
    return lambda: store.prune(records)


def forget(store: PostgresTaskStore) -> Call:
    def until_it_is_gone() -> None:
        while store.forget_node(NODE, "forget.1", actor="olga", reason="burnt"):
            pass

    return until_it_is_gone


def rebucket(store: PostgresTaskStore) -> Call:
    stored_queued(store, 3, bucket=OLD.bucket_of(KEY), bucket_key=KEY)
    return lambda: store.rebucket(96, "rebucket.1", actor="olga")


def place_hold(store: PostgresTaskStore) -> Call:
    return lambda: store.place_hold(SharedHold(scope=HoldScope.NODE, target=NODE, by="olga"))


def lift_hold(store: PostgresTaskStore) -> Call:
    place_hold(store)()
    return lambda: store.lift_hold(HoldScope.NODE, NODE)


def upkeep(store: PostgresTaskStore) -> Call:
    """One month is missing, and one is over and empty."""
    with store._calls.connected() as connection:
        keep_months(connection, LAST_YEAR)
        connection.execute(f"DROP TABLE IF EXISTS {max(months_ahead(datetime.now(UTC))).table}")
    return store.upkeep


def expire(store: PostgresTaskStore) -> Call:
    run = stored_run(store, 4)
    store.renew(TERM, [run.id], TTL)
    return lambda: store.expire([run.id], "expire.1", actor="judge")


def register(store: PostgresTaskStore) -> Call:
    return lambda: store.register_term(term_record(), node_record(ttl=timedelta(0)))


def renew(store: PostgresTaskStore) -> Call:
    stored_run(store, 5)
    return lambda: store.renew(TERM, [task_id(4), task_id(5)], TTL)


CALLS = (save, prune, forget, rebucket, place_hold, lift_hold, upkeep, expire, register, renew)


@pytest.fixture(scope="module")
def pair(databases: Any, one_database: str) -> Iterator[list[PostgresTaskStore]]:
    """Two stores, each as if in a process of its own."""
    with ExitStack() as stack:
        address = databases.of(one_database)
        yield [stack.enter_context(PostgresTaskStore(address, deadline=LIMIT)) for _ in range(2)]


@pytest.mark.parametrize(("held", "other"), list(itertools.permutations(CALLS, 2)), ids=lambda call: call.__name__)
@pytest.mark.usefixtures("halting")
def test_no_two_calls_deadlock(databases, one_database, pair, held, other):
    """Each ends as if the other were not there, or is refused."""
    for place in itertools.count(3):  # the first statement sets limits, and nothing is held before the second
        databases.empty(one_database)
        prepare(pair[0])
        calls = [call(store) for call, store in zip((held, other), pair, strict=True)]
        with psycopg.connect(databases.of(one_database), autocommit=True, row_factory=scalar_row) as watching:
            for table in ("leases", "renewals"):
                watching.execute(f"UPDATE {table} SET until = clock_timestamp() - interval '1 ms'")
            if not meet(watching, Halt(place), *calls):
                break


def prepare(store: PostgresTaskStore) -> None:
    """A node that is gone, and a task that waits on it."""
    store.record_num_buckets(OLD.num_buckets)
    store.register_term(term_record(), node_record(ttl=timedelta(0)))
    stored_queued(store, 6)


def meet(watching: psycopg.Connection[Any], halt: Halt, held: Call, other: Call) -> bool:
    """Make the other call while the first one is held; False when that had no statement left to be held before."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(halt.run, held)
        try:
            wait_until(lambda: halt.is_reached.is_set() or first.done(), "a statement to hold it before")
            if not halt.is_reached.is_set():
                check(first)
                return False
            second = threads.submit(other)
            wait_until(
                lambda: second.done() or watching.execute(waiting).fetchone(), "the other call's end, or its wait"
            )
        finally:
            halt.release()
        check(first)
        check(second)
    return True


def check(call: "Future[object]") -> None:
    try:
        call.result(LIMIT)
    except Refused:
        return
