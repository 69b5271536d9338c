"""A process that is frozen in the middle of a write holds its locks for no longer than a call may take."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psutil
import psycopg
import pytest
from needs import unavailable
from pg_server import Databases
from waiting import wait_until

from chong.store.errors import StoreUnavailable
from chong.store.model import Save
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import moved, save_of, stored_run, task_id
from chong.store.states import Status

TRANSACTION_TIMEOUT = 170_000
DEADLINE = 1.0
SLACK = 20.0
"""For a machine that is busy; without a bound it would be for ever."""
WRITER = """
import os, signal, sys
from chong.store import postgres_pool
from chong.store.errors import StoreUnavailable
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import moved, save_of, task_id
from chong.store.states import Status

execute = postgres_pool.Statements.execute
left = int(sys.argv[2])

def suspend(self, query, values, /):
    global left
    found = execute(self, query, values)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    return found

with PostgresTaskStore(sys.argv[1], deadline=1) as store:
    task = store.get(task_id(1))
    postgres_pool.Statements.execute = suspend
    try:
        print(store.save_many([save_of(task, moved(task, Status.RUNNING), event_id="late")]), flush=True)
    except StoreUnavailable as error:
        print("away", flush=True)
"""


MIGRATE = """
import os, signal, sys
from chong.store import postgres_connection
from chong.store.errors import StoreUnavailable
from chong.store.postgres import PostgresTaskStore

execute = postgres_connection.Connection.execute

def suspend(self, query, *words, **more):
    found = execute(self, query, *words, **more)
    if "CREATE TABLE transitions" in str(query):
        os.kill(os.getpid(), signal.SIGSTOP)
    return found

postgres_connection.Connection.execute = suspend
try:
    PostgresTaskStore(sys.argv[1])
except StoreUnavailable as error:
    print("away", flush=True)
"""


UPKEEP = """
import os, signal, sys
from datetime import UTC, datetime
from chong.store import postgres_connection
from chong.store.errors import StoreUnavailable
from chong.store.partitions import months_ahead
from chong.store.postgres import PostgresTaskStore

execute = postgres_connection.Connection.execute

def suspend(self, query, *words, **more):
    found = execute(self, query, *words, **more)
    text = query if isinstance(query, str) else query.as_string(self)
    if text.startswith("LOCK TABLE ONLY transitions"):
        os.kill(os.getpid(), signal.SIGSTOP)
    return found

with PostgresTaskStore(sys.argv[1]) as store:
    with store._calls.connected() as connection:
        connection.execute(f"DROP TABLE {max(months_ahead(datetime.now(UTC))).table}")
    postgres_connection.Connection.execute = suspend
    try:
        store.upkeep()
    except StoreUnavailable as error:
        print("away", flush=True)
"""


@contextmanager
def suspended(*code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this code, with these words, and has suspended itself by now."""
    words = [sys.executable, "-c", *code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            stopped = psutil.STATUS_STOPPED
            wait_until(lambda: psutil.Process(child.pid).status() == stopped, "its SIGSTOP")
            yield child
        finally:
            child.kill()


def save_in_time(store: PostgresTaskStore, save: Save) -> None:
    until = time.monotonic() + SLACK
    while True:
        try:
            assert store.save_many([save]) == [None]
        except StoreUnavailable:
            assert time.monotonic() < until, "the locks are still held"
        else:
            return


def wake(child: "subprocess.Popen[str]") -> None:
    """It finds its connection gone."""
    child.send_signal(signal.SIGCONT)
    assert child.stdout is not None
    assert child.stdout.readline() == "away\n"


@pytest.mark.parametrize("after", [3, 4, 5], ids=["leases locked and tasks", "written", "and inserted"])
def test_a_frozen_writer_lets_go_of_what_it_has_locked(database: str, after: int):
    """The server waits for its next statement, which none of the usual limits counts."""
    with psycopg.connect(database) as connection:
        if connection.info.server_version < TRANSACTION_TIMEOUT:
            unavailable("a server before version 17 knows no limit of a whole transaction")
    with PostgresTaskStore(database, deadline=DEADLINE) as store:
        run = stored_run(store, 1)
        with suspended(WRITER, database, str(after)) as child:
            end = save_of(run, moved(run, Status.SUCCEEDED, ended_at=datetime.now(UTC)))
            save_in_time(store, end)
            wake(child)
        found = store.get(task_id(1))
        assert found is not None
        assert found.status is Status.SUCCEEDED


def test_a_frozen_migration_lets_go_of_the_tables(databases: Databases):
    """Whoever makes them next does not wait for it for ever."""
    name = databases.new("template1")
    with suspended(MIGRATE, databases.of(name)) as child:
        wait_until(lambda: is_made(databases.of(name)), "the tables", SLACK)
        wake(child)
    databases.drop(name)


def is_made(address: str) -> bool:
    try:
        PostgresTaskStore(address, deadline=DEADLINE).close()
    except StoreUnavailable:
        return False
    return True


def test_a_frozen_upkeep_lets_go_of_the_trail(database: str):
    """Nobody in the whole deployment could write to it."""
    with PostgresTaskStore(database, deadline=DEADLINE) as store:
        run = stored_run(store, 1)
        with suspended(UPKEEP, database) as child:
            save_in_time(store, save_of(run, moved(run, Status.SUCCEEDED, ended_at=datetime.now(UTC))))
            wake(child)
