"""How PostgreSQL carries out what is asked again and again: by indexes, and no slower for what has ended."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pg_server import Databases

from chong.store.postgres import PostgresTaskStore

sys.path.append(str(Path(__file__).parents[2] / "tools"))

from bench_plans import Measured, page
from large_store import LargeStore
from operations import COUNTING, OPERATIONS, TERM, TTL, Subjects, new_runs
from statements import Statement, explained

OPEN, FEW, MANY = 1000, 10_000, 40_000
PAGES = 2500
"""What a look at the open tasks may take, and a hundred of others found one by one."""
STATEMENTS = {
    "ps": 6,
    "show": 7,
    "history": 3,
    "buckets": 9,
    "reconcile": 7,
    "doctor": 10,
    "the check of a minute": 16,
    "claim_commands": 2,
    "renew": 1,
    "touch": 1,
    "save, three batches of 100": 12,
    "prune, one batch of 100": 17,
    "prune, nothing is old enough": 8,
    "prune --dry-run": 1,
    "stats": 1,
} | {name: 3 for name in OPERATIONS if name.startswith("ps --all")}

Seen = dict[str, list[Statement]]


def seen(address: str) -> Seen:
    """What each operation sends, and what it takes when its pages are in memory."""
    found: Seen = {}
    with PostgresTaskStore(address, deadline=60) as store:
        subjects = Subjects.of(store)
        for name, operation in OPERATIONS.items():
            with explained(analyze=True) as found[name]:
                operation(store, subjects)
    return found


@pytest.fixture(scope="module")
def sizes(databases: Databases) -> Iterator[tuple[Seen, Seen]]:
    """With few finished tasks, and with four times as many."""
    name = databases.new()
    large = LargeStore(databases.of(name))
    large.add_open(OPEN)
    found = []
    for finished in (FEW, MANY):
        large.grow(finished)
        found.append(seen(databases.of(name)))
    yield found[0], found[1]
    databases.drop(name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_table_of_tasks_or_trails_is_read_from_end_to_end(sizes, name):
    """The counting operations read an index instead."""
    for statement in sizes[1][name]:
        grown = {table for table in statement.whole_tables if table.startswith(("tasks", "transitions"))}
        assert grown == set(), f"{statement.text}\n{statement.short_plan}"


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in COUNTING])
def test_finished_tasks_cost_nothing(sizes, name):
    """Four times as many make no operation read more pages, beyond a bound."""
    few, many = sizes
    for before, after in zip(few[name], many[name], strict=True):
        assert after.buffers <= max(PAGES, 1.5 * before.buffers), (
            f"{after.text}\n{before.short_plan}\n{after.short_plan}"
        )


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_sends_so_many_statements(sizes, name):
    """However many tasks it is about: one renewal is one statement, for 100 runs or 1,000."""
    assert len(sizes[1][name]) == STATEMENTS[name]


def test_the_survey_looks_up_the_last_change_of_an_open_task_once(sizes):
    """Three pages lead to it, whatever is asked about it."""
    (work,) = (statement for statement in sizes[1]["doctor"] if "LATERAL" in statement.text)
    assert work.buffers < 5 * OPEN


def test_renewals_leave_nothing_behind_beside_a_long_transaction(database):
    """From which vacuum may clear nothing away: leases follow their term's row, of which each renewal leaves one."""
    with PostgresTaskStore(database) as store, psycopg.connect(database) as held:
        runs = new_runs(store, 200)
        assert store.renew(TERM, runs, TTL) == set()
        held.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        held.execute("SELECT count(*) FROM leases")
        before = pages(database)
        for _ in range(100):
            assert store.renew(TERM, runs, TTL) == set()
        after = pages(database)
    assert after["leases"] == before["leases"]
    assert after["renewals"] <= before["renewals"] + 2


def pages(address: str) -> dict[str, int]:
    """Of the two tables and their indexes."""
    with psycopg.connect(address) as connection:
        asked = "SELECT name, pg_total_relation_size(name::regclass) / 8192 FROM unnest(%s::text[]) AS t (name)"
        return dict(connection.execute(asked, (["leases", "renewals"],)).fetchall())


def test_a_renewal_is_one_statement(database):
    """For a thousand runs as for one."""
    with PostgresTaskStore(database) as store:
        runs = new_runs(store, 1000)
        with explained(analyze=False) as sent:
            store.renew(TERM, runs, TTL)
    assert len(sent) == 1


def test_the_page_of_plans_has_a_line_for_each_operation(sizes):
    """With the plan of the statement that takes longest."""
    few, many = ({name: Measured(tuple(sent)) for name, sent in size.items()} for size in sizes)
    lines = page(few, many, MANY, "18").splitlines()
    told = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    assert told.keys() == OPERATIONS.keys()
    assert "tasks_open" in told["ps"]
