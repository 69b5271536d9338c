"""A row that says what chong never writes is named by table, key and column, whoever reads it."""

import json
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from chong.store.codec import Codec
from chong.store.columns import MICROSECONDS
from chong.store.contract import refuse
from chong.store.errors import StoreUnavailable, UnreadableRow
from chong.store.model import Failure, FailureKind, HoldScope, SharedHold, StopMoments
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import NODE, START, TERM, moved, put, queued, save_of, stored_run
from chong.store.specimens import request as asked
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
    "limits": (
        partial(CODEC.node_from_row, tell=refuse),
        "node",
        "limits",
        "[]",
        "nodes k, column limits: expected a JSON object",
    ),
}


HUGE = "1" + 400 * "0"
"""A whole number that is beyond all fractions, too."""


def stop_with(**elements: object) -> str:
    plain = {"by": "o", "reason": None, **dict.fromkeys(("delivered_at", "acknowledged_at", "effective_at"), 1)}
    return json.dumps(plain | {"asked_at": 1} | elements)


ELEMENTS = {
    "failure": (
        '["exception",5,null,null]',
        '["exception","E",{},null]',
        "[5,null,null,null]",
        '["exception",null,"m",null]',
        '["exception","E",null,null]',
        '[null,"E","m",null]',
        '["exception","E","m",5]',
    ),
    "stop": (
        stop_with(by=5),
        stop_with(by=None),
        stop_with(reason=5),
        stop_with(asked_at="now"),
        stop_with(asked_at=None),
        stop_with(effective_at=10**400),
    ),
    "progress": (
        '["x","y",5]',
        "[1,2,5]",
        "[1,[],null]",
        "[1e999,2,null]",
        "[1,2]",
        f"[{HUGE},2,null]",
        f"[1,{2**63},null]",
        "[1,-1e300,null]",
        "[1,true,null]",
    ),
    "usage": (
        '["many",1,1]',
        "[1.5,{},1]",
        "[]",
        "[null,1,1]",
        f"[{HUGE},1,1]",
        "[1e300,1,1]",
        f"[1,{HUGE},1]",
        f"[1,1,{2**63}]",
        "[1,1,NaN]",
    ),
    "ended": (
        "{}",
        "[]",
        '{"attempt":"one"}',
        '{"attempt":1,"exit_code":"x"}',
        f'{{"attempt":1,"max_rss_bytes":{HUGE}}}',
        '{"attempt":1,"max_rss_bytes":1.5}',
        '{"attempt":1,"cpu_seconds":NaN}',
        '{"attempt":1,"forced":1}',
        '{"attempt":1,"kind":7}',
    ),
    "limits": ('{"node":"many"}', '{"node":1.5}', '{"node":[]}', f'{{"node":{HUGE}}}', '{"node":true}'),
}


@pytest.mark.parametrize(("column", "value"), [(column, value) for column in ELEMENTS for value in ELEMENTS[column]])
def test_what_stands_in_a_composite_value_is_checked_too(column, value):
    """Who calculates with it later would stumble over it."""
    read = partial(CODEC.node_from_row, tell=refuse) if column == "limits" else CODEC.snapshot_from_row
    with pytest.raises(UnreadableRow, match=f"column {column}: expected a JSON"):
        read({"id": "k", "node": "k", "outcome": None, "version": 1, column: value})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("ended", '{"attempt":1,"a later word":{}}'),
        ("usage", "[1.5,null,null]"),
        ("progress", f"[null,{2**63 - 1},null]"),
        ("limits", '{"node":null}'),
    ],
)
def test_what_may_be_unknown_is_readable_without_it(column, value):
    """And so is the largest number that any store of ours has written."""
    CODEC._values("leases", {"task_id": "k", column: value})


def test_what_chong_writes_into_composite_values_is_read_back():
    """Also where a part of it is unknown."""
    stop = StopMoments(START, "olga", None, delivered_at=START)
    failure = Failure(FailureKind.CRASHED, "SIGKILL", "gone")
    task = replace(queued(), stop=stop, failure=failure, lease_owner=None)
    columns = CODEC.snapshot_to_columns(task)
    del columns["tail"]
    assert CODEC.snapshot_from_row(columns) == task


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


def test_a_hold_of_a_bucket_that_is_none_holds_nobody(damaged):
    """And ends no supervisor."""
    store, execute = damaged
    store.place_hold(SharedHold(scope=HoldScope.BUCKET, target="7", by="olga"))
    execute("INSERT INTO holds (scope, target, \"by\", since) SELECT 'bucket', 'abc', \"by\", since FROM holds")
    assert [hold.target for hold in store.holds().holds] == ["7"]


def test_a_deployment_without_its_row_is_told(damaged):
    """As a store that is away: a supervisor waits until it is restored, whatever it asks."""
    store, execute = damaged
    execute("DELETE FROM deployment")
    save = save_of(None, queued(bucket=1, bucket_key="k"))
    hold = SharedHold(scope=HoldScope.NAME, target="mail", by="olga")
    calls = (
        store.deployment,
        store.holds,
        lambda: store.survey(still=timedelta(0)),
        lambda: store.save_many([save], num_buckets=8),
        lambda: store.place_hold(hold),
        lambda: store.rebucket(16, "event", actor="olga"),
    )
    for call in calls:
        with pytest.raises(StoreUnavailable, match="the one row"):
            call()


def test_a_file_without_its_row_is_told_to_who_opens_it(tmp_path):
    """Whether or not it is to be brought up to date."""
    SqliteTaskStore(tmp_path / "chong.db").close()
    with closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other:
        other.execute("DELETE FROM deployment")
    for create in (True, False):
        with pytest.raises(StoreUnavailable, match="the one row"):
            SqliteTaskStore(tmp_path / "chong.db", create=create)


def test_a_table_that_is_away_is_waited_for(damaged):
    """As a server is: a copy may be being restored."""
    store, execute = damaged
    run = stored_run(store)
    execute("ALTER TABLE tasks RENAME TO tasks_x")
    with pytest.raises(StoreUnavailable, match="tasks"):
        put(store, run, moved(run, Status.SUCCEEDED))
    execute("ALTER TABLE tasks_x RENAME TO tasks")
    assert put(store, run, moved(run, Status.SUCCEEDED)).status is Status.SUCCEEDED


@pytest.mark.parametrize("value", ["infinity", "-infinity", "20000-01-01"])
def test_a_time_that_python_cannot_hold_is_named(database, value):
    """The driver reads it after the call."""
    with PostgresTaskStore(database) as store:
        run = stored_run(store)
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("UPDATE tasks SET created_at = %s", [value])
        with pytest.raises(UnreadableRow, match=f"tasks {run.id}, column created_at: expected a time with a zone, got"):
            store.get(run.id)


def test_a_declaration_without_a_time_is_named(tmp_path):
    """By its node."""
    with SqliteTaskStore(tmp_path / "chong.db") as store, closing(sqlite3.connect(tmp_path / "chong.db")) as other:
        store.declare_buckets("node-a", frozenset({1}))
        other.execute("UPDATE node_buckets SET updated_at = 'noon'")
        other.commit()
        with pytest.raises(UnreadableRow, match="node_buckets node-a, column updated_at: expected a time"):
            store.declarations()


IN_BOTH = {
    "an unknown action": ("action = 'explode'", "commands command-2, column action: expected an action of chong, got"),
}
IN_SQLITE = {
    "no time": ("issued_at = 'noon'", "commands command-2, column issued_at: expected a time in microseconds, got"),
    "an id that is no text": ("id = x'ff00'", "column id: expected text without NUL, got"),
    "an id of bytes that are no text": ("id = CAST(x'ff41' AS TEXT)", "column id: expected text without NUL, got"),
    "a reason of bytes that are no text": (
        "reason = CAST(x'ff41' AS TEXT)",
        "column reason: expected text without NUL, got",
    ),
    "an issuer that is no text": (
        "issued_by = x'00'",
        "commands command-2, column issued_by: expected text without NUL, got",
    ),
    "an id with a NUL": ("id = 'a' || char(0)", r"commands a\x00, column id: expected text without NUL, got 'a\x00'"),
    "an issuer with a NUL": ("issued_by = char(0)", "commands command-2, column issued_by: expected text without NUL"),
    "a reason with a NUL": ("reason = char(0)", "commands command-2, column reason: expected text without NUL, got"),
    "an id of two lines": ("id = 'a' || char(10), action = 'x'", r"commands a\n, column action: expected an action"),
    "a long id": ("id = replace(hex(zeroblob(5000)), '0', 'i'), action = 'x'", "column action: expected an action"),
}
IN_POSTGRES = {
    "no time": ("issued_at = 'infinity'", "commands command-2, column issued_at: expected a time with a zone, got"),
    "no end of a long id": ("id = repeat('i', 5000), action = 'x'", "column action: expected an action of chong"),
}


@pytest.fixture(
    params=[
        *(("sqlite", what) for what in IN_BOTH | IN_SQLITE),
        *(("postgresql", what) for what in IN_BOTH | IN_POSTGRES),
    ],
    ids="-".join,
)
def spoilt(request):
    """What is wrong with the second of three commands."""
    database, what = request.param
    return database, (IN_BOTH | (IN_SQLITE if database == "sqlite" else IN_POSTGRES))[what]


def test_an_unreadable_command_holds_up_no_other(spoilt, tmp_path, request):
    """It is told once, in one line, and is refused: who waits for it need not wait for ever."""
    database, (change, said) = spoilt
    with ExitStack() as ends:
        if database == "sqlite":
            store = ends.enter_context(SqliteTaskStore(tmp_path / "chong.db"))
            other = ends.enter_context(closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)))
        else:
            address = request.getfixturevalue("database")
            store = ends.enter_context(PostgresTaskStore(address))
            other = ends.enter_context(psycopg.connect(address, autocommit=True))
        run = stored_run(store)
        for number in (1, 2, 3):
            store.submit_command(asked(number, run))
        other.execute(f"UPDATE commands SET {change} WHERE id = 'command-2'")
        told = []
        claimed = store.claim_commands(NODE, TERM, lease=timedelta(0), on_unreadable=told.append)
        assert {command.id for command in claimed} == {"command-1", "command-3"}
        (fault,) = map(str, told)
        assert said in fault
        assert len(fault) < 250
        assert "\n" not in fault
        again = store.claim_commands(NODE, TERM, lease=timedelta(0), on_unreadable=told.append)
        assert (len(again), len(told)) == (2, 1)
        ended = "SELECT outcome, detail FROM commands WHERE finished_at IS NOT NULL"
        assert [tuple(row) for row in other.execute(ended).fetchall()] == [("refused", fault)]
        assert {command.id for command in store.commands(run.id)} == {"command-1", "command-3"}
        check_pruning(store, run)
        assert other.execute("SELECT count(*) FROM commands").fetchone()[0] == 0


def check_pruning(store, run):
    """It goes with its task, and into the archive as it is."""
    put(store, run, moved(run, Status.SUCCEEDED, ended_at=START))
    (record,) = store.prunable(timedelta(0))
    assert len(record.commands) == 2
    (raw,) = record.unreadable_commands
    assert json.loads(raw)["outcome"] == "refused"
    assert store.prune([record]) == {run.id}
