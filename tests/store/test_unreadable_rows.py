"""A row that says what chong never writes is named by table, key and column, whoever reads it."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from chong.store.codec import Codec
from chong.store.columns import MICROSECONDS
from chong.store.errors import StoreError, StoreUnavailable, UnreadableRow
from chong.store.model import HoldScope, SharedHold
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import TERM, TTL, moved, put, request, stored_run
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status

CODEC = Codec(MICROSECONDS)
DEEP = "[" * 100_000
ROWS = {
    "no JSON": (CODEC.snapshot_from_row, "id", "tags", "nonsense", "tasks k, column tags: expected a JSON list"),
    "other JSON": (CODEC.snapshot_from_row, "id", "flags", '"text"', "tasks k, column flags: expected a JSON list"),
    "too deep": (CODEC.snapshot_from_row, "id", "tags", DEEP, "tasks k, column tags: expected a JSON list"),
    "no state": (
        CODEC.snapshot_from_row,
        "id",
        "status",
        "asleep",
        "tasks k, column status: expected a state of chong",
    ),
    "no time": (CODEC.snapshot_from_row, "id", "ended_at", "noon", "tasks k, column ended_at: expected a time"),
    "far too late": (CODEC.snapshot_from_row, "id", "ended_at", 10**18, "tasks k, column ended_at: expected a time"),
    "half a stop": (CODEC.snapshot_from_row, "id", "stop", "{}", "tasks k, column stop: expected a JSON object"),
    "half a failure": (CODEC.snapshot_from_row, "id", "failure", "[]", "tasks k, column failure: expected a JSON list"),
    "an outcome": (CODEC.snapshot_from_row, "id", "outcome", "{", "tasks k, column outcome: expected JSON"),
    "a move": (
        CODEC.transition_from_row,
        "task_id",
        "target",
        "asleep",
        "transitions k, column target: expected a state",
    ),
    "progress": (CODEC.lease_from_row, "task_id", "progress", "{}", "leases k, column progress: expected a JSON list"),
    "limits": (CODEC.node_from_row, "node", "limits", "[]", "nodes k, column limits: expected a JSON object"),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_value_is_named(what):
    """In one line, which is short whatever the value is."""
    read, key, column, value, said = ROWS[what]
    with pytest.raises(UnreadableRow) as error:
        read({key: "k", column: value})
    assert f"store: {said}" in str(error.value)
    assert len(str(error.value)) < 250


@pytest.fixture(params=["sqlite", "postgresql"])
def damaged(request, tmp_path):
    """A store, and what runs a statement on its database as somebody else would."""
    if request.param == "sqlite":
        with SqliteTaskStore(tmp_path / "chong.db") as store, closing(sqlite3.connect(tmp_path / "chong.db")) as other:
            other.isolation_level = None
            yield store, other.execute
    else:
        address = request.getfixturevalue("database")
        with PostgresTaskStore(address) as store:
            store.nodes()
            with psycopg.connect(address, autocommit=True) as other:
                yield store, other.execute


def test_a_hold_of_a_kind_that_is_not_known_is_left_to_those_who_know_it(damaged):
    """A later version beside this one may have placed it."""
    store, execute = damaged
    store.place_hold(SharedHold(scope=HoldScope.NAME, target="mail", by="olga"))
    execute("INSERT INTO holds (scope, target, \"by\", since) SELECT 'group', 'g', \"by\", since FROM holds")
    assert [hold.target for hold in store.holds().holds] == ["mail"]


def test_a_table_that_is_away_is_waited_for(damaged):
    """As a server is: a copy may be being restored."""
    store, execute = damaged
    run = stored_run(store)
    execute("ALTER TABLE tasks RENAME TO tasks_x")
    with pytest.raises(StoreUnavailable, match="tasks"):
        put(store, run, moved(run, Status.SUCCEEDED))
    execute("ALTER TABLE tasks_x RENAME TO tasks")
    assert put(store, run, moved(run, Status.SUCCEEDED)).status is Status.SUCCEEDED


def test_a_time_that_python_cannot_hold_is_one_line(database):
    """The driver reads it after the call."""
    with PostgresTaskStore(database) as store:
        run = stored_run(store)
        store.submit_command(request(1, run))
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("UPDATE commands SET issued_at = 'infinity'")
        with pytest.raises(StoreError, match="a row cannot be read: timestamp too large"):
            store.claim_commands("node-a", TERM, lease=TTL)
