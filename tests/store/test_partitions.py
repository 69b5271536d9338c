"""The months of the trail: made ahead, filled from the rest, dropped when they are over and empty."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import scalar_row
from waiting import wait_until

from chong.store import partitions
from chong.store.errors import StoreUnavailable
from chong.store.ids import new_id
from chong.store.partitions import Month, keep_months, month_of, months_ahead
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_connection import Connection
from chong.store.specimens import queued, save_of, stored_end

NOW = datetime.now(UTC)


@pytest.fixture
def store(database: str) -> Iterator[PostgresTaskStore]:
    with PostgresTaskStore(database) as store:
        yield store


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with Connection.connect(database) as connection:
        yield connection


def column(database: str, query: str) -> list[Any]:
    with psycopg.connect(database, autocommit=True, row_factory=scalar_row) as other:
        return other.execute(query).fetchall()


def parts(database: str) -> set[str]:
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'transitions'::regclass"
    return set(column(database, query))


def homes(database: str) -> list[str]:
    return column(database, "SELECT DISTINCT tableoid::regclass::text FROM transitions ORDER BY 1")


@given(st.integers(0, 7000 * 365 * 86_400))
def test_an_id_lies_in_the_month_of_its_time(second):
    """And in no other; the month is known by its name."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    month = Month.of(moment)
    digits = f"{int(moment.timestamp() * 1000):012x}"
    made = f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"
    assert month.first_id <= made < month.next.first_id
    assert month_of(month.table) == month
    assert month_of("transitions_rest") is None


def id_in(moment: datetime) -> str:
    digits = f"{int(moment.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000001"


def test_months_are_made_ahead_with_the_tables_and_take_new_tasks(store, database):
    """Keeping them changes nothing then."""
    for _ in range(2):
        assert parts(database) == {"transitions_rest", *(month.table for month in months_ahead(NOW))}
        store.upkeep()
    assert store.save_many([save_of(None, queued(id=new_id()))]) == [None]
    assert homes(database) == [Month.of(NOW).table]


def test_what_lies_in_the_rest_moves_when_its_month_is_made(store, database, connection):
    """Nobody was there to make it in time; the trail is whole before and after."""
    later = NOW + timedelta(days=400)
    task = queued(id=id_in(later))
    assert store.save_many([save_of(None, task)]) == [None]
    assert homes(database) == ["transitions_rest"]
    before = store.history(task.id)
    keep_months(connection, later)
    assert homes(database) == [Month.of(later).table]
    assert store.history(task.id) == before


def test_a_month_goes_when_it_is_over_and_empty(store, database, connection):
    """Not before, and not while anything of it is kept."""
    past = NOW - timedelta(days=400)
    keep_months(connection, past)
    old = {month.table for month in months_ahead(past)}
    kept = stored_end(store, id=id_in(past))
    store.upkeep()
    assert parts(database) & old == {Month.of(past).table}
    (record,) = store.prunable(timedelta(0))
    assert (record.task.id, store.prune([record])) == (kept.id, {kept.id})
    store.upkeep()
    assert parts(database) & old == set()


def test_several_supervisors_may_keep_them_at_once(database, connection):
    """One makes a month, the others find it."""
    stores = [PostgresTaskStore(database) for _ in range(4)]
    for store in stores:
        store.nodes()  # the tables are there
    for month in months_ahead(NOW):
        connection.execute(f"DROP TABLE {month.table}")
    faults: list[BaseException] = []

    def keep(store: PostgresTaskStore) -> None:
        try:
            store.upkeep()
        except BaseException as fault:
            faults.append(fault)

    threads = [Thread(target=keep, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for store in stores:
        store.close()
    assert faults == []
    assert len(parts(database)) == 4


def wait_for_locks(database: str, waiting: int) -> None:
    here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
    asked = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND database = {here}"
    wait_until(lambda: column(database, asked) == [waiting], f"{waiting} that wait for a lock")


def test_a_past_month_that_is_not_empty_is_left_alone(store, database, connection, monkeypatch):
    """Whoever reads the trail for long, or writes to it, does not meet a lock of it."""
    past = NOW - timedelta(days=400)
    keep_months(connection, past)
    old = {month.table for month in months_ahead(past)}
    stored_end(store, id=id_in(past))
    kept = Month.of(past).table
    for table in old - {kept}:
        connection.execute(f"DROP TABLE {table}")
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE transitions IN ROW EXCLUSIVE MODE")
        asked: list[str] = []
        monkeypatch.setattr(partitions, "_limit_waits", lambda _: asked.append("a lock"))
        store.upkeep()
        assert asked == []
    assert parts(database) & old == {kept}


def test_a_month_that_is_in_use_does_not_keep_the_others(store, database, connection):
    """The other empty ones go; one that is missing and cannot be made is told, and made by the next upkeep."""
    past = NOW - timedelta(days=400)
    keep_months(connection, past)
    first, *others = sorted(month.table for month in months_ahead(past))
    with psycopg.connect(database) as other:
        other.execute(f"SELECT 1 FROM ONLY {first}")
        store.upkeep()
        assert parts(database) & {first, *others} == {first}
    missing = max(months_ahead(NOW)).table
    connection.execute(f"DROP TABLE {missing}")
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM ONLY transitions_rest")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            store.upkeep()
    store.upkeep()
    assert parts(database) & {first, missing} == {missing}


@pytest.mark.parametrize("is_over", [False, True])
def test_who_writes_while_months_are_kept_is_not_refused(store, database, connection, monkeypatch, is_over):
    """It waits until its month is made, or dropped, and then finds where its trail belongs."""
    monkeypatch.setattr(partitions, "LOCK_WAIT", "40s")
    then = NOW + timedelta(days=-400 if is_over else 400)
    if is_over:
        keep_months(connection, then)
    task = queued(id=id_in(then))
    with ThreadPoolExecutor(2) as threads, psycopg.connect(database) as other:
        # Keeps it in the middle.
        part = Month.of(then).table if is_over else "transitions_rest"
        other.execute(f"LOCK TABLE {part} IN ROW EXCLUSIVE MODE")
        kept = threads.submit(keep_months, connection, NOW if is_over else then)
        wait_for_locks(database, 1)
        saved = threads.submit(store.save_many, [save_of(None, task)])
        wait_for_locks(database, 2)
        other.rollback()
        kept.result(30)
        assert saved.result(30) == [None]
    assert [step.target for step in store.history(task.id)] == [task.status]
    assert homes(database) == ["transitions_rest" if is_over else Month.of(then).table]
