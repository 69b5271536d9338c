"""A store that older code has made and worked with: nothing of it is lost, and its leases are judged as they stand."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pg_server import Databases, execute
from psycopg.rows import dict_row

from chong.store import postgres_schema
from chong.store.errors import ConfigurationError, TablesOutdated
from chong.store.model import Action, Failure, FailureKind, HoldScope, Progress, Usage
from chong.store.partitions import keep_months
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_schema import NEEDED, STEPS
from chong.store.queries import load_script
from chong.store.query import TaskQuery
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import LATER_TERM, NODE, TERM, TTL, moved, node_record, put, read, task_id, term_record
from chong.store.states import Status
from chong.supervisor.preflight import preflight
from chong.supervisor.settings import Settings

ROWS = Path(__file__).with_name("older_rows.sql").read_text()
REBUCKETED = """
INSERT INTO rebucketings (event_id, at, "by", reason, before, after, waiting, moved)
VALUES ('rebucket-1', '2026-03-01 12:00:00+00', 'olga', 'more nodes', 32, 64, 10, 4)
"""
S = Status
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUED, RUNS, DEAD, FROZEN, SUCCEEDED, FAILED = map(task_id, range(1, 7))
SCHEMA_6_REGISTERS = """
INSERT INTO nodes
    (node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at)
VALUES ('node-c', 'node-c-id', 'node-c.1', 'host', 'boot', 1, '0.1', '30 s', '{}', '', 0, now(), now())
"""
SCHEMA_5_RENEWS = """
UPDATE leases SET until = clock_timestamp() + ttl, renewals = renewals + 1 WHERE term = 'node-a.1'
"""


def left(version: int) -> tuple[int, int]:
    """The schema of tables as code that knew this one has left them, and the oldest code that may use them."""
    return version, NEEDED if version >= NEEDED else 1


@pytest.fixture(params=[4, 5, 6, 7, 8])
def version(request: pytest.FixtureRequest) -> int:
    """The schema that the older code knew."""
    return int(request.param)


@pytest.fixture
def older(databases: Databases, version: int) -> Iterator[str]:
    """The address of a store as that code has left it."""
    name = databases.new("template1")
    with psycopg.connect(databases.of(name), row_factory=dict_row) as connection:
        for step in range(min(STEPS), version + 1):
            connection.execute(load_script(STEPS[step]).encode())
        keep_months(connection)
        connection.execute(ROWS.encode())
        if version > min(STEPS):
            connection.execute(REBUCKETED.encode())
        connection.execute("UPDATE deployment SET schema_version = %s, oldest_code = %s", left(version))
    yield databases.of(name)
    databases.drop(name)


@pytest.fixture
def store(older: str) -> Iterator[PostgresTaskStore]:
    """The same, upgraded."""
    with PostgresTaskStore(older) as store:
        yield store


def versions(address: str) -> Any:
    """The schema of these tables, and the oldest code that may use them."""
    with psycopg.connect(address) as connection:
        return connection.execute("SELECT schema_version, oldest_code FROM deployment").fetchone()


def get(store: PostgresTaskStore, task: str) -> Any:
    found = store.get(task)
    assert found is not None
    return found


def test_who_only_looks_waits_for_the_upgrade(older: str, version: int):
    """In one line; and the tables stay as they are."""
    with pytest.raises(TablesOutdated, match=f"has schema {version}, this code needs {SCHEMA_VERSION}: run `chong mig"):
        PostgresTaskStore(older, create=False)
    assert versions(older) == left(version)


def test_a_check_of_a_supervisor_says_that_the_tables_are_to_be_upgraded(older: str, version: int, tmp_path: Path):
    """And leaves them as they are."""
    settings = Settings(node="node-a", state_dir=tmp_path / "state")
    assert ", store to be upgraded; " in preflight(settings, older)
    assert versions(older) == left(version)


def test_every_task_is_read_as_it_was_written(store: PostgresTaskStore):
    """With its trail, its notes, and what the lease says of its run."""
    tasks = {task.id: task for task in store.query(TaskQuery(limit=10))}
    statuses = (S.QUEUED, S.RUNNING, S.RUNNING, S.PAUSED, S.SUCCEEDED, S.FAILED)
    assert {task.id: task.status for task in tasks.values()} == {task_id(n): s for n, s in enumerate(statuses, 1)}
    assert (tasks[QUEUED].bucket, tasks[QUEUED].bucket_key, tasks[QUEUED].tags) == (7, "acme", {"eu", "nightly"})
    run = tasks[RUNS]
    assert (run.lease_owner, run.attempt, run.last_heartbeat_at) == (TERM, 1, NOON + timedelta(seconds=5))
    assert (run.progress, run.usage) == (Progress(3, 9, "page 3"), Usage(1.5, 1024, 2048))
    assert tasks[FROZEN].flags == {"frozen"}
    assert tasks[SUCCEEDED].outcome == {"pages": [1, None, "\0"]}
    assert tasks[FAILED].failure == Failure(FailureKind.EXCEPTION, "ValueError", "no such page")
    for task in tasks.values():
        trail = store.history(task.id)
        assert [(step.version, step.target) for step in trail][-1] == (task.version, task.status)
        assert [step.source for step in trail] == [None, *(step.target for step in trail[:-1])]
    assert [(note.kind, note.detail) for note in store.notes(RUNS)] == [("adopted", "from node-a.0")]


def test_what_the_nodes_have_said_is_read(store: PostgresTaskStore, version: int):
    """Nodes, terms, buckets, definitions, holds, firings, alerts, and changes of the number of buckets."""
    assert [(node.node, node.term, node.is_live, node.machine_id) for node in store.nodes()] == [
        (NODE, TERM, True, ""),
        ("node-b", "node-b.1", False, ""),
    ]
    assert [term.term for term in store.terms(NODE)] == [TERM]
    assert [(claim.bucket, claim.node) for claim in store.declarations()] == [(1, NODE), (2, "node-b")]
    assert [(entry.name, entry.options, entry.hold) for entry in store.catalogue()] == [
        ("billing.sync", {"retries": 3}, "noisy; by olga")
    ]
    held = store.holds()
    assert held.revision == 2
    assert {(hold.scope, hold.target, hold.reason) for hold in held.holds} == {
        (HoldScope.BUCKET, "7", "moves"),
        (HoldScope.NODE, "node-b", None),
    }
    assert [(alert.kind, alert.acknowledged_by) for alert in store.alerts()] == [("silent", "olga")]
    assert not store.claim_firing("billing.sync", None, NOON, node=NODE, event_id="firing-2")
    assert [(change.before, change.after) for change in store.rebucketings()] == [(32, 64)] * (version > min(STEPS))
    assert store.deployment().num_buckets == 64


def test_leases_of_before_are_judged_each_by_its_own_row(store: PostgresTaskStore):
    """What is past is lost, with the last signs of its run and what was asked of it; who lives is left alone."""
    assert {lease.task_id: lease.is_past for lease in store.leases()} == {RUNS: False, DEAD: True, FROZEN: False}
    assert [task.id for task in store.expire([RUNS, DEAD, FROZEN], "judge-1", actor="judge")] == [DEAD]
    lost = get(store, DEAD)
    assert (lost.status, lost.version, lost.progress) == (S.LOST, 4, Progress(1))
    assert [command.outcome for command in store.commands(DEAD)] == ["too_late"]
    assert {lease.task_id for lease in store.leases()} == {RUNS, FROZEN}


def test_a_supervisor_of_before_that_goes_on_keeps_its_leases(store: PostgresTaskStore, older: str):
    """It renews them row by row, as it always has, while others work on the new tables."""
    execute(older, "UPDATE leases SET until = clock_timestamp() - interval '1 s', ttl = '1 hour'")
    execute(older, SCHEMA_5_RENEWS)
    assert {lease.task_id: (lease.is_past, lease.renewals) for lease in store.leases()} == {
        RUNS: (False, 13),
        DEAD: (True, 7),
        FROZEN: (False, 3),
    }
    assert store.expire([RUNS, FROZEN], "judge-1", actor="judge") == []


def test_a_node_of_before_registers_beside_others(store: PostgresTaskStore, older: str):
    """It tells no machine, and keeps nobody from telling one."""
    execute(older, SCHEMA_6_REGISTERS)
    store.register_term(term_record(), node_record(machine_id="m"))
    assert {node.node: node.machine_id for node in store.nodes()} == {NODE: "m", "node-b": "", "node-c": ""}
    assert versions(older) == (SCHEMA_VERSION, NEEDED)


def test_the_next_term_takes_over_what_was_running(store: PostgresTaskStore):
    """Its leases follow its renewals; the claim of the term before is free; the run ends as any other."""
    store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
    adopted = store.adopt(TERM, LATER_TERM, [RUNS, FROZEN], TTL, "adopt-1")
    assert [(task.id, task.version) for task in adopted] == [(RUNS, 4), (FROZEN, 5)]
    for number in (1, 2):
        assert store.renew(LATER_TERM, [RUNS, FROZEN], TTL) == set()
        assert {lease.task_id: lease.renewals for lease in store.leases([RUNS, FROZEN])} == {
            RUNS: number,
            FROZEN: number,
        }
    (claimed,) = store.claim_commands(NODE, LATER_TERM, lease=TTL)
    assert (claimed.id, claimed.action, claimed.reason, claimed.stored_at) == ("command-1", Action.STOP, "late", None)
    run = read(store, adopted[0])
    assert run.progress == Progress(3, 9, "page 3")
    end = put(store, run, moved(run, S.SUCCEEDED, ended_at=NOON))
    assert read(store, end).last_heartbeat_at == NOON + timedelta(seconds=5)
    assert [lease.task_id for lease in store.leases()] == [DEAD, FROZEN]


def test_code_that_would_misread_the_leases_is_refused(store: PostgresTaskStore, older: str, monkeypatch):
    """To it each lease that follows is past. Also as a supervisor, which might make tables; and nothing changes."""
    assert (store.deployment().schema_version, store.deployment().oldest_code) == (SCHEMA_VERSION, NEEDED)
    known = NEEDED - 1
    monkeypatch.setattr(postgres_schema, "SCHEMA_VERSION", known)
    for create in (True, False):
        with pytest.raises(ConfigurationError) as refused:
            PostgresTaskStore(older, create=create)
        said = f"has schema {SCHEMA_VERSION}, for code that knows schema {NEEDED} or newer; this one knows {known}"
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
    assert versions(older) == (SCHEMA_VERSION, NEEDED)
