"""How PostgreSQL carries out what is asked again and again: by indexes, and no slower for what has ended."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pg_server import Databases

from chong.store.postgres import PostgresTaskStore

sys.path.append(str(Path(__file__).parents[2] / "tools"))

from large_store import LargeStore
from operations import COUNTING, OPERATIONS, Subjects
from statements import Statement, explained

OPEN, FEW, MANY = 1000, 10_000, 40_000
PAGES = 2500
"""What a look at the open tasks may take, and a hundred of others found one by one."""
STATEMENTS = {
    "ps": 6,
    "show": 7,
    "history": 3,
    "buckets": 9,
    "reconcile": 6,
    "doctor": 10,
    "the check of a minute": 16,
    "claim_commands": 2,
    "renew": 1,
    "touch": 1,
    "save, three batches of 100": 12,
    "prune, one batch of 100": 17,
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
