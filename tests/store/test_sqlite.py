"""What only the SQLite store promises: its settings, its plans, its outages and its connections."""

import gc
import multiprocessing
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from chong.store import schema
from chong.store.errors import StoreError, StoreUnavailable
from chong.store.model import Note
from chong.store.query import TaskQuery
from chong.store.specimens import (
    START,
    TERM,
    TTL,
    SetClock,
    node_record,
    queued,
    read,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.sqlite import SqliteTaskStore
from chong.store.sqlite_session import Session
from chong.store.sqlite_tables import DIALECT
from chong.store.states import Status

LIMIT = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chong.db"


@pytest.fixture
def store(path):
    with SqliteTaskStore(path, deadline=0.2) as store:
        yield store


def test_a_fault_of_the_store_s_own_is_no_note_that_cannot_be_stored(store, monkeypatch):
    """It is told as what it is, and not once for each note."""
    run = stored_run(store)

    def broken():
        raise TypeError("a fault of ours")

    monkeypatch.setattr(store, "_now", broken)
    with pytest.raises(TypeError, match="a fault of ours"):
        store.append([Note(task_id=run.id, kind="k", at=START, actor="a", event_id=event) for event in ("1", "2")])


def setting(store: SqliteTaskStore, name: str):
    with store._session().reading() as db:
        return db.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize("look", ["nodes", "leases", "buckets", "survey"])
def test_what_was_written_just_before_a_look_does_not_come_from_the_future(path, look):
    """Whoever looks reads the clock after he has chosen what he sees: a writer may come in between."""
    now, late = SetClock(), []

    def clock() -> datetime:
        """Of the looker; whenever it is asked, somebody else writes a second later."""
        moment = now.now
        if late:
            now.advance(1)
            late[0]()
        return moment

    with SqliteTaskStore(path, clock=clock) as looking, SqliteTaskStore(path, clock=now) as writing:
        writing.record_num_buckets(64)
        writing.register_term(term_record(), node_record())
        run = stored_run(writing, 1)
        late.append(lambda: writing.renew(TERM, [run.id], TTL))
        found = {
            "nodes": lambda: [node.is_live for node in looking.nodes()],
            "leases": lambda: [not lease.is_past for lease in looking.leases()],
            "buckets": lambda: [load.expired == 0 for load in looking.bucket_loads()],
            "survey": lambda: [node.is_live for node in looking.survey(still=timedelta(0)).nodes],
        }[look]()
        assert found == [True]


def in_thread(work) -> object:
    """What `work` returns in a thread of its own, which ends then."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(LIMIT)


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("journal_mode", "wal"),
            ("synchronous", 2),
            ("wal_autocheckpoint", 0),
            ("busy_timeout", 200),
            ("application_id", schema.APPLICATION_ID),
        ],
    )
    def test_each_connection_has_its_settings(self, store, name, value):
        """In the thread that opened the store, and in any other."""
        assert [value] * 2 == [setting(store, name), in_thread(lambda: setting(store, name))]

    def test_a_store_that_checkpoints_does_so_on_one_connection(self, path):
        """SQLite's own checkpoints stay off there too."""
        with SqliteTaskStore(path, checkpoints=True) as store:
            assert setting(store, "wal_autocheckpoint") == 0
            assert store._log._session is not store._session()

    def test_a_store_that_checkpoints_keeps_the_log_from_growing(self, path):
        """What was written is moved into the database soon after."""
        with SqliteTaskStore(path, checkpoints=True) as store:
            store._log._due = due = time.monotonic()
            stored_queued(store)
            assert store._log._due > due

    def test_a_checkpoint_waits_for_its_turn(self, path):
        """Not at every write: it costs a flush of two files."""
        with SqliteTaskStore(path, checkpoints=True) as store:
            store._log._due = due = time.monotonic() + LIMIT
            stored_queued(store)
            assert due == store._log._due

    @pytest.mark.parametrize(("overdue", "has_moved"), [(1.0, False), (61.0, True)])
    def test_a_renewal_checkpoints_only_when_nobody_else_did(self, path, overdue, has_moved):
        """It must not wait for upkeep, but on an idle node nothing else is written."""
        with SqliteTaskStore(path, checkpoints=True) as store:
            store._log._due = due = time.monotonic() - overdue
            store.renew(TERM, [], TTL)
            assert has_moved is (store._log._due != due)

    def test_another_store_leaves_the_log_alone(self, store):
        """Only the supervisor's moves it."""
        assert store._log is None

    def test_a_store_survives_its_process(self, path):
        """What was saved is there when the file is opened again."""
        with SqliteTaskStore(path) as store:
            task = stored_queued(store)
        with SqliteTaskStore(path, create=False) as store:
            assert read(store, task).status is Status.QUEUED


CONDITIONS = {
    "none": {},
    "buckets": {"buckets": frozenset({1, 2})},
    "one bucket": {"buckets": frozenset({1})},
    "statuses": {"statuses": frozenset({Status.QUEUED, Status.RUNNING})},
    "names": {"names": frozenset({"a", "b"})},
    "tags": {"tags": frozenset({"a", "b"})},
    "node": {"node": "node-a"},
    "key": {"key": "acme"},
    "ids": {"ids": frozenset({task_id(1)})},
    "since": {"since": START},
    "before": {"before": task_id(9)},
    "page of a bucket": {"buckets": frozenset({1}), "before": task_id(9)},
    "mine and open": {"buckets": frozenset({1}), "statuses": frozenset({Status.QUEUED})},
}


class TestPlans:
    def plan(self, store, text, values):
        with store._session().reading() as db:
            return [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()]

    @pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
    def test_every_condition_is_served_by_an_index(self, store, conditions):
        """Tasks and leases are searched; only without any condition the newest are walked in order."""
        plan = self.plan(store, *store._render(TaskQuery(**conditions)))
        reads = [line for line in plan if line.split()[1] in {"t", "l"}]
        assert len(reads) == 2
        walks = [line for line in reads if not line.startswith("SEARCH")]
        assert walks == ([] if conditions else ["SCAN t USING INDEX sqlite_autoindex_tasks_1"])

    @pytest.mark.parametrize(
        ("query", "table", "index"),
        [
            ("get", "t", "sqlite_autoindex_tasks_1"),
            ("find", "tasks", "tasks_by_tail"),
            ("save_stored", "t", "sqlite_autoindex_tasks_1"),
            ("save_holder", "tasks", "tasks_unique_key"),
            ("stats_buckets", "tasks", "tasks_by_bucket"),
            ("prunable", "tasks", "tasks_ended"),
            ("count_prunable", "tasks", "tasks_ended"),
            ("prune_firings", "f", "firings_by_claim"),
            ("claim_commands", "commands", "commands_open"),
            ("adopt_commands", "commands", "commands_claimed"),
            ("commands", "commands", "commands_by_task"),
            ("terms", "terms", "terms_by_node"),
        ],
    )
    def test_a_query_uses_its_index(self, store, query, table, index):
        """And scans no table that grows."""
        values = dict.fromkeys(
            (
                *("id", "part", "part_end", "tail", "tail_end", "limit", "skipped", "unique_key", "age", "node", "now"),
                "old_term",
            ),
            1,
        )
        plan = self.plan(store, DIALECT.queries[query], values | {"ids": "[]", "buckets": "[]"})
        assert any(line.startswith(f"SEARCH {table} ") and index in line for line in plan)
        assert [line for line in plan if line.startswith(f"SCAN {table}")] == []

    def test_open_work_is_counted_without_the_finished(self, store):
        """However many tasks have ended."""
        plan = self.plan(store, DIALECT.queries["bucket_loads"], {"now": 1})
        assert plan[0] == "SCAN t USING INDEX tasks_open"

    @pytest.mark.parametrize("part", ["tags", "transitions", "notes", "commands", "tasks"])
    def test_pruning_scans_nothing(self, store, part):
        """It runs beside the work."""
        plan = self.plan(store, DIALECT.queries[f"prune_{part}"], {"ids": "[]"})
        assert [line for line in plan if line.startswith("SCAN") and "VIRTUAL" not in line] == []


class TestOutage:
    def test_a_writer_that_does_not_let_go_makes_the_store_unavailable(self, path, store):
        """After the deadline; reading goes on."""
        with SqliteTaskStore(path) as other, other._session().writing():
            with pytest.raises(StoreUnavailable, match="locked"):
                stored_queued(store)
            assert store.query(TaskQuery()) == []
        assert read(store, stored_queued(store)).status is Status.QUEUED

    def test_a_full_disk_makes_the_store_unavailable(self, store):
        """Reading goes on, and so does writing when there is room again."""
        pages = setting(store, "page_count")
        setting(store, f"max_page_count = {pages}")
        with pytest.raises(StoreUnavailable, match="full"):
            stored_queued(store, outcome="x" * 100_000)
        assert store.query(TaskQuery()) == []
        setting(store, "max_page_count = 100000")
        assert read(store, stored_queued(store)).status is Status.QUEUED

    def test_a_failed_write_leaves_no_transaction_open(self, store):
        """The next call begins anew."""
        with pytest.raises(ZeroDivisionError), store._session().writing():
            raise ZeroDivisionError
        with store._session().reading() as db:
            assert not db.in_transaction

    @pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_CORRUPT])
    def test_a_connection_in_doubt_is_opened_anew(self, code):
        """What it believes of the file may be wrong."""
        opened = []

        def connect():
            opened.append(sqlite3.connect(":memory:"))
            return opened[-1]

        session = Session("x", connect)
        error = sqlite3.OperationalError("first line")
        error.sqlite_errorcode = code
        with pytest.raises(StoreUnavailable), session.reading():
            raise error
        with session.reading() as db:
            assert db is opened[1]
        session.end(0)


def use_in_child(store, answers) -> None:
    try:
        store.stats()
    except StoreError as error:
        answers.put(str(error))


class TestConnections:
    def test_each_thread_has_its_own(self, store):
        """The thread that renews waits for nobody."""
        assert store._session() is store._session()
        assert in_thread(store._session) is not store._session()

    def test_a_thread_that_ends_takes_its_connection_along(self, store):
        """Threads may come and go."""
        in_thread(store.stats)
        gc.collect()
        assert len(store._sessions) == 1

    def test_renewing_goes_on_while_another_thread_is_at_work(self, store):
        """A long read of one thread is no business of another."""
        run = stored_run(store)
        with store._session().reading():
            assert in_thread(lambda: store.renew(TERM, [run.id], TTL)) == set()

    def test_a_closed_store_says_so(self, store):
        """To a thread that used it before."""
        store.stats()
        store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            store.stats()

    def test_a_closed_store_opens_nothing_anew(self, store):
        """A thread that comes late gets no connection either."""
        store.close()
        with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable, match="closed"):
            pool.submit(store.stats).result(LIMIT)

    def test_closing_waits_for_calls_under_way(self, path):
        """The call ends in peace, then its connection is gone."""
        store = SqliteTaskStore(path, deadline=LIMIT)
        inside, go_on = threading.Event(), threading.Event()

        def call():
            with store._session().reading() as db:
                inside.set()
                assert go_on.wait(LIMIT)
                assert db.execute("SELECT 1").fetchone()[0] == 1

        caller, closer = threading.Thread(target=call), threading.Thread(target=store.close)
        caller.start()
        assert inside.wait(LIMIT)
        closer.start()
        closer.join(0.05)
        assert closer.is_alive()
        go_on.set()
        caller.join(LIMIT)
        closer.join(LIMIT)
        assert not closer.is_alive()

    def test_closing_gives_up_at_its_deadline(self, path):
        """The call under way closes its own connection when it ends."""
        store = SqliteTaskStore(path, deadline=0.05)
        session = store._session()
        with session.reading() as db:
            in_thread(store.close)
            assert db.execute("SELECT 1").fetchone()[0] == 1
        assert session._connection is None

    def test_a_store_is_not_carried_across_a_fork(self, store):
        """Its locks would belong to nobody."""
        fork = multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()
        child = fork.Process(target=use_in_child, args=(store, answers))
        child.start()
        child.join(LIMIT)
        assert not answers.empty()
        assert "after the fork" in answers.get()
        stored_queued(store)


class TestClock:
    def test_without_a_clock_the_hosts_is_used(self, store):
        """A new lease holds."""
        stored_run(store)
        assert [lease.is_past for lease in store.leases()] == [False]

    def test_a_lease_survives_the_store(self, path):
        """Its end is an instant, not a span of this process."""
        clock = SetClock()
        with SqliteTaskStore(path, clock=clock) as store:
            stored_run(store)
        clock.advance(31)
        with SqliteTaskStore(path, clock=clock) as store:
            assert [lease.is_past for lease in store.leases()] == [True]
            assert store.count_prunable(timedelta(0)) == 0


def test_the_specimen_is_new_each_time():
    """Tests share no task by accident."""
    assert queued(1) == queued(1)
    assert queued(1).id != queued(2).id
