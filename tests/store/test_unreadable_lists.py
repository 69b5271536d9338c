"""A list of which one row cannot be read gives the others, and tells of that row."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from chong.store.alert import Finding
from chong.store.contract import TaskStore
from chong.store.errors import StoreError, UnreadableRow
from chong.store.model import CatalogueEntry, HoldScope, Note, SharedHold, TaskSnapshot
from chong.store.pages import all_tasks
from chong.store.postgres import PostgresTaskStore
from chong.store.query import TaskQuery
from chong.store.specimens import (
    LATER_TERM,
    NODE,
    START,
    TERM,
    node_record,
    request,
    stored_end,
    stored_run,
    task_id,
    term_record,
)
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status
from chong.store.task_tables import MOST_SKIPPED
from chong.supervisor.rebucketed import refuse_rebucketed

NOW = timedelta(0)


@dataclass
class Damaged:
    """`store` tells `told`, `strict` was opened without a word; `execute` is somebody else's."""

    store: TaskStore
    strict: TaskStore
    execute: Callable[[str], Any]
    never: str
    """No time that Python can hold, as a literal."""
    past: str
    """A time long ago, as a literal."""
    told: list[UnreadableRow] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Of each row once, and no more from here on."""
        said = sorted({f"{fault.table} {fault.column}" for fault in self.told})
        self.told.clear()
        return said


@pytest.fixture(params=["sqlite", "postgresql"])
def damaged(request, tmp_path) -> Iterator[Damaged]:
    told: list[UnreadableRow] = []
    if request.param == "sqlite":
        path = tmp_path / "chong.db"
        make, other = partial(SqliteTaskStore, path), lambda: sqlite3.connect(path, isolation_level=None)
        never, past = "noon", "1"
    else:
        address = request.getfixturevalue("database")
        make, never, past = partial(PostgresTaskStore, address), "infinity", "'epoch'"
        other = partial(psycopg.connect, address, autocommit=True)
    with make(on_unreadable=told.append) as store, make() as strict, closing(other()) as connection:
        yield Damaged(store, strict, connection.execute, f"'{never}'", past, told)


def populate(store: TaskStore) -> None:
    """Two of everything, and more tasks."""
    for number, node in ((1, NODE), (2, "node-b")):
        store.register_term(term_record(f"{node}.1", node=node), node_record(f"{node}.1", node=node))
        store.declare_buckets(node, frozenset({number}))
        store.publish_catalogue(node, [CatalogueEntry(node=node, name=f"task-{number}", module="m", hold="held")])
        store.place_hold(SharedHold(scope=HoldScope.NAME, target=f"task-{number}", by="olga"))
        run = stored_run(store, number)
        store.append([Note(task_id=task_id(1), kind="k", at=START, actor="a", event_id=str(number))])
        stored_end(store, 10 + number)
        assert run.status is Status.STARTING
    store.report_findings(
        [Finding("orphan", "node a", "d", ""), Finding("orphan", "node b", "d", "")], quiet=timedelta(1), event_id="e"
    )


LISTS: dict[str, tuple[str, str, Callable[[TaskStore], Any], int]] = {
    "query": (
        "tasks",
        "flags = '{{}}' WHERE id = '00000001-0000-7000-8000-000000000001'",
        lambda s: s.query(TaskQuery()),
        3,
    ),
    "alerts": ("alerts", "first_seen = {never} WHERE subject = 'node a'", lambda s: s.alerts(), 1),
    "terms": ("terms", "started_at = {never} WHERE node = 'node-a'", lambda s: s.terms(NODE), 0),
    "history": ("transitions", "at = {never} WHERE version = 2", lambda s: s.history(task_id(1)), 1),
    "notes": ("notes", "at = {never} WHERE event_id = '2'", lambda s: s.notes(task_id(1)), 1),
    "leases": (
        "leases",
        "until = {never} WHERE task_id = '00000001-0000-7000-8000-000000000001'",
        lambda s: s.leases(),
        1,
    ),
    "nodes": ("nodes", "limits = '[]' WHERE node = 'node-a'", lambda s: s.nodes(), 2),
    "nodes seen": ("nodes", "seen_at = {never} WHERE node = 'node-a'", lambda s: s.nodes(), 2),
    "catalogue": ("catalogue", "options = '[]' WHERE node = 'node-a'", lambda s: s.catalogue(), 2),
    "declarations": ("node_buckets", "updated_at = {never} WHERE node = 'node-a'", lambda s: s.declarations(), 2),
    "holds": ("holds", "since = {never} WHERE target = 'task-1'", lambda s: s.holds().holds, 2),
    "the nodes of a survey": ("nodes", "limits = '[]' WHERE node = 'node-a'", lambda s: s.survey(still=NOW).nodes, 2),
    "the holds of a survey": (
        "holds",
        "since = {never} WHERE target = 'task-1'",
        lambda s: s.survey(still=NOW).holds,
        2,
    ),
}


@pytest.mark.parametrize("what", LISTS)
def test_one_row_costs_no_other(damaged: Damaged, what: str):
    """It is told once for each look; without anybody to tell it to, the look fails as a whole."""
    table, change, look, left = LISTS[what]
    populate(damaged.store)
    damaged.execute(f"UPDATE {table} SET {change.format(never=damaged.never)}")
    assert len(look(damaged.store)) == left
    assert [fault.table for fault in damaged.told] == [table]
    with pytest.raises(UnreadableRow, match=f"store: {table} "):
        look(damaged.strict)


def test_who_wants_all_leases_hears_of_each_that_cannot_be_read(damaged: Damaged):
    """Whoever else is told of it: a lease that is not there says that nobody holds the run."""
    populate(damaged.store)
    damaged.execute(f"UPDATE leases SET until = {damaged.never} WHERE task_id = '{task_id(1)}'")
    with pytest.raises(UnreadableRow, match="store: leases "):
        damaged.store.leases([task_id(1), task_id(2)], whole=True)
    assert damaged.told == []
    assert [lease.task_id for lease in damaged.store.leases([task_id(2)], whole=True)] == [task_id(2)]


@pytest.mark.parametrize("damaged", ["postgresql"], indirect=True)
def test_a_time_to_live_beyond_what_the_server_can_count_costs_no_look(damaged: Damaged):
    """Of a lease, a node and a claim: all others are seen, claimed and judged as ever."""
    populate(damaged.store)
    for number in (1, 2):
        damaged.store.submit_command(request(number, stored_run(damaged.store, 2 + number)))
    assert len(damaged.store.claim_commands(NODE, TERM, lease=timedelta(seconds=30), limit=1)) == 1
    for change in (
        f"leases SET ttl = '300000 years' WHERE task_id = '{task_id(1)}'",
        f"nodes SET ttl = '300000 years' WHERE node = '{NODE}'",
        "commands SET claim_ttl = '300000 years' WHERE claimed_by IS NOT NULL",
    ):
        damaged.execute(f"UPDATE {change}")
    assert [node.is_live for node in damaged.store.nodes()] == [True, True]
    assert [lease.is_past for lease in damaged.store.leases()] == [False] * 4
    assert [found.commands for found in damaged.store.survey(still=NOW).commands] == [1]
    assert len(damaged.store.claim_commands(NODE, TERM, lease=timedelta(seconds=30))) == 1


SUMS: dict[str, tuple[str, str, Callable[[TaskStore], Any]]] = {
    "work": ("transitions SET stored_at = {never}", "tasks since", lambda s: s.survey(still=NOW).work),
    "commands": ("commands SET stored_at = {never}", "commands since", lambda s: s.survey(still=NOW).commands),
}


@pytest.mark.parametrize("what", SUMS)
def test_a_sum_of_a_survey_that_cannot_be_read_costs_no_other(damaged: Damaged, what: str):
    """It is left out, and told."""
    change, fault, look = SUMS[what]
    populate(damaged.store)
    damaged.store.submit_command(request(1, stored_run(damaged.store, 3)))
    assert len(look(damaged.store)) == 1
    damaged.execute(f"UPDATE {change.format(never=damaged.never)}")
    assert look(damaged.store) == ()
    assert damaged.faults() == [fault]
    assert len(damaged.store.survey(still=NOW).nodes) == 2


def test_a_change_of_the_number_of_buckets_without_its_moment_is_one_of_now(damaged: Damaged):
    """Whoever had declared nothing before it owns nothing, for all that is known."""
    damaged.store.record_num_buckets(8)
    for number in (16, 32):
        damaged.store.rebucket(number, f"rebucket.{number}", actor="olga")
    damaged.execute(f"UPDATE rebucketings SET at = {damaged.never} WHERE after = 32")
    survey = damaged.store.survey(still=NOW)
    assert survey.rebucketed_at == survey.now
    assert [(change.at is None, change.after) for change in damaged.store.rebucketings()] == [(True, 32), (False, 16)]
    assert {str(fault).partition(":")[2].partition(":")[0] for fault in damaged.told} == {" rebucketings 2, column at"}


def test_what_is_there_is_never_taken_for_absent(damaged: Damaged):
    """A hold holds, a node lives, a definition is held, a claim stands: whatever else of them cannot be read."""
    populate(damaged.store)
    for change in (
        f"holds SET since = {damaged.never}",
        "nodes SET limits = '[]'",
        "catalogue SET options = '[]'",
        f"node_buckets SET updated_at = {damaged.never}",
    ):
        damaged.execute(f"UPDATE {change}")
    survey = damaged.store.survey(still=NOW)
    assert [(hold.target, hold.by) for hold in survey.holds] == [("task-1", "olga"), ("task-2", "olga")]
    assert [(node.node, node.is_live, node.limits) for node in survey.nodes] == [(NODE, True, {}), ("node-b", True, {})]
    assert [(entry.name, entry.hold) for entry in survey.catalogue] == [("task-1", "held"), ("task-2", "held")]
    assert [(claim.node, claim.bucket) for claim in survey.declarations] == [(NODE, 1), ("node-b", 2)]
    assert damaged.faults() == ["catalogue options", "holds since", "node_buckets updated_at", "nodes limits"]


def test_whoever_needs_the_whole_trail_gets_no_part_of_it(damaged: Damaged):
    """From what is not there it would be concluded that nothing was begun."""
    populate(damaged.store)
    damaged.execute(f"UPDATE transitions SET at = {damaged.never} WHERE version = 2")
    with pytest.raises(UnreadableRow, match="transitions"):
        damaged.store.history(task_id(1), whole=True)


def test_a_single_task_that_cannot_be_read_is_an_error(damaged: Damaged):
    """Whoever asked for it is told why there is no answer."""
    populate(damaged.store)
    damaged.execute("UPDATE tasks SET flags = '{}'")
    for ask in (lambda: damaged.store.get(task_id(1)), lambda: damaged.store.find("0001")):
        with pytest.raises(UnreadableRow, match=f"tasks {task_id(1)}, column flags: expected a JSON list"):
            ask()


def test_a_page_is_full_where_there_is_more_behind_it(damaged: Damaged, monkeypatch):
    """Whoever reads page by page takes a short one for the last."""
    monkeypatch.setattr("chong.store.pages.PAGE", 3)
    for number in range(1, 13):
        stored_run(damaged.store, number)
    damaged.execute(f"UPDATE tasks SET flags = '{{}}' WHERE id > '{task_id(4)}'")
    damaged.execute(f"UPDATE tasks SET flags = '[]' WHERE id > '{task_id(8)}'")
    asked = TaskQuery(statuses=frozenset({Status.STARTING}))
    expected = [task_id(number) for number in (12, 11, 10, 9, 4, 3, 2, 1)]
    assert [task.id for task in all_tasks(damaged.store, asked)] == expected
    assert [task.id for task in damaged.store.query(TaskQuery(limit=6))] == expected[:6]
    assert {fault.key for fault in damaged.told} == {task_id(number) for number in (5, 6, 7, 8)}


HANDED: dict[str, tuple[Callable[[TaskStore, list[str]], list[TaskSnapshot]], str]] = {
    "adopt": (lambda s, ids: s.adopt(TERM, LATER_TERM, ids, timedelta(seconds=30), "event"), "version = 3"),
    "expire": (lambda s, ids: s.expire(ids, "event", actor="judge"), "status = 'lost'"),
}


@pytest.mark.parametrize("call", HANDED)
@pytest.mark.parametrize("is_strict", [False, True], ids=["told", "strict"])
def test_a_run_that_cannot_be_read_keeps_no_other_from_being_judged(damaged: Damaged, call: str, is_strict: bool):
    """What is written is written, and the rest returned; who wants to hear of no such row learns it afterwards."""
    hand, written = HANDED[call]
    ids = [stored_run(damaged.store, number).id for number in (1, 2, 3)]
    damaged.execute(f"UPDATE leases SET until = {damaged.past}")
    damaged.execute(f"UPDATE tasks SET tags = '{{}}' WHERE id = '{ids[1]}'")
    for _ in range(2):  # a repeated call returns the same ones
        if is_strict:
            with pytest.raises(UnreadableRow, match=f"tasks {ids[1]}, column tags"):
                hand(damaged.strict, ids)
        else:
            assert [task.id for task in hand(damaged.store, ids)] == [ids[0], ids[2]]
            assert damaged.faults() == ["tasks tags"]
        (found,) = damaged.execute(f"SELECT count(*) FROM tasks WHERE {written}").fetchall()
        assert found[0] == len(ids)


@pytest.mark.parametrize("damaged", ["sqlite"], indirect=True)
@pytest.mark.parametrize("change", ["version = 'many'", "status = 'asleep'"])
def test_a_run_that_stands_nowhere_keeps_no_other_from_being_judged(damaged: Damaged, change: str):
    """SQLite keeps such values; what would follow from them nobody can say, so it stays as it is."""
    ids = [stored_run(damaged.store, number).id for number in (1, 2)]
    damaged.execute("UPDATE leases SET until = 1")
    damaged.execute("PRAGMA ignore_check_constraints = ON")
    damaged.execute(f"UPDATE tasks SET {change} WHERE id = '{ids[0]}'")
    assert [task.id for task in damaged.store.expire(ids, "event", actor="judge")] == ids[1:]
    assert damaged.faults() == [f"tasks {change.split(maxsplit=1)[0]}"]
    assert [lease.task_id for lease in damaged.store.leases()] == ids[:1]


PARTS = {
    "the task": "tasks SET flags = '{{}}' WHERE id",
    "its trail": "transitions SET at = {never} WHERE task_id",
    "a note": "notes SET at = {never} WHERE task_id",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_task_of_which_a_part_cannot_be_read_is_not_removed(damaged: Damaged, part: str):
    """Nor is anything of it; the others go, also where a whole page of such tasks stands before them."""
    for number in range(1, 8):
        task = stored_end(damaged.store, number, ended_at=START + timedelta(minutes=number))
        damaged.store.append([Note(task_id=task.id, kind="k", at=START, actor="a", event_id="1")])
    bad = [task_id(number) for number in (1, 2, 3, 5)]
    for each in bad:
        damaged.execute(f"UPDATE {PARTS[part].format(never=damaged.never)} = '{each}'")
    gone: list[str] = []
    while records := damaged.store.prunable(NOW, limit=2):
        assert len(records) <= 2
        gone += damaged.store.prune(records)
    assert sorted(gone) == [task_id(number) for number in (4, 6, 7)]
    assert {fault.key for fault in damaged.told} >= set(bad)
    for table, column in (("tasks", "id"), ("transitions", "task_id"), ("notes", "task_id")):
        (left,) = damaged.execute(f"SELECT count(DISTINCT {column}) FROM {table}").fetchall()
        assert left[0] == len(bad)


def test_what_another_removes_meanwhile_hides_nothing(damaged: Damaged, monkeypatch):
    """The page that was found is gone then, and what was behind it is in its place."""
    for number in range(1, 5):
        stored_end(damaged.store, number, ended_at=START + timedelta(minutes=number))
    read = damaged.store._records

    def overtaken(*words: Any) -> Any:
        monkeypatch.setattr(damaged.store, "_records", read)
        damaged.strict.prune(damaged.strict.prunable(NOW, limit=2))
        return read(*words)

    monkeypatch.setattr(damaged.store, "_records", overtaken)
    assert [record.task.id for record in damaged.store.prunable(NOW, limit=2)] == [task_id(3), task_id(4)]


@pytest.mark.parametrize("target", ["9" * 5000, "100000", "\u0663", "7a", ""])
def test_a_hold_of_what_cannot_be_a_bucket_holds_nothing(damaged: Damaged, target: str):
    """And ends nobody who counts with it."""
    damaged.store.place_hold(SharedHold(scope=HoldScope.BUCKET, target=target, by="olga"))
    damaged.store.place_hold(SharedHold(scope=HoldScope.BUCKET, target="7", by="olga"))
    assert [hold.target for hold in damaged.store.holds().holds] == ["7"]


def test_a_task_that_was_spoilt_behind_its_look_is_not_removed(damaged: Damaged):
    """It is not what was looked at."""
    task = stored_end(damaged.store)
    (record,) = damaged.store.prunable(NOW)
    damaged.execute("UPDATE tasks SET flags = '{}'")
    assert damaged.store.prune([record]) == set()
    assert damaged.faults() == ["tasks flags"]
    damaged.execute("UPDATE tasks SET flags = '[]'")
    assert damaged.store.get(task.id) == record.task


def test_a_look_for_what_can_be_removed_ends(damaged: Damaged, monkeypatch):
    """However many stand in its way."""
    assert MOST_SKIPPED > 1
    monkeypatch.setattr("chong.store.task_tables.MOST_SKIPPED", 4)
    for number in range(1, 8):
        stored_end(damaged.store, number, ended_at=START + timedelta(minutes=number))
    damaged.execute(f"UPDATE tasks SET flags = '{{}}' WHERE id < '{task_id(7)}'")
    assert damaged.store.prunable(NOW, limit=2) == []
    assert len({fault.key for fault in damaged.told}) == 4


def history(store: TaskStore) -> list[Any]:
    return store.history(task_id(1))


def terms(store: TaskStore) -> list[Any]:
    return [term for node in (NODE, "node-b") for term in store.terms(node)]


ODD = {
    "bytes": ("tasks SET name = x'ff00' WHERE id < '00000002'", "tasks name", lambda s: s.query(TaskQuery())),
    "no text": (
        "tasks SET name = CAST(x'ff41' AS TEXT) WHERE id < '00000002'",
        "tasks name",
        lambda s: s.query(TaskQuery()),
    ),
    "a NUL": ("tasks SET name = 'a' || char(0) WHERE id < '00000002'", "tasks name", lambda s: s.query(TaskQuery())),
    "a NUL in who asked": ("transitions SET actor = char(0) WHERE version = 2", "transitions actor", history),
    "a NUL in a note": (
        "notes SET detail = char(0) WHERE event_id = '2'",
        "notes detail",
        lambda s: s.notes(task_id(1)),
    ),
    "a NUL in a term": ("leases SET term = char(0) WHERE task_id < '00000002'", "leases term", lambda s: s.leases()),
    "a NUL in a holder": (
        "leases SET term = char(0) WHERE task_id < '00000002'",
        "tasks lease_owner",
        lambda s: s.query(TaskQuery()),
    ),
    "a NUL in a boot": ("terms SET boot_id = char(0) WHERE term = 'node-a.1'", "terms boot_id", terms),
    "a NUL in an alert": (
        "alerts SET detail = char(0) WHERE subject = 'node a'",
        "alerts detail",
        lambda s: s.alerts(),
    ),
    "a NUL in who holds": ("holds SET \"by\" = char(0) WHERE target = 'task-1'", "holds by", lambda s: s.holds().holds),
    "a NUL in why it holds": ("holds SET reason = char(0)", "holds reason", lambda s: s.holds().holds),
    "no number": ("tasks SET attempt = 'many' WHERE id < '00000002'", "tasks attempt", lambda s: s.query(TaskQuery())),
    "no version": ("tasks SET version = 'many' WHERE id < '00000002'", "tasks version", lambda s: s.query(TaskQuery())),
    "no state": ("tasks SET status = 'asleep' WHERE id < '00000002'", "tasks status", lambda s: s.stats()),
    "no bucket": ("tasks SET bucket = 'many' WHERE id < '00000002'", "tasks bucket", lambda s: s.bucket_loads()),
    "no alert": ("alerts SET detail = x'00' WHERE subject = 'node a'", "alerts detail", lambda s: s.alerts()),
    "no holder": ("holds SET \"by\" = x'ff41' WHERE target = 'task-1'", "holds by", lambda s: s.holds().holds),
    "no reason": ("holds SET reason = CAST(x'ff41' AS TEXT)", "holds reason", lambda s: s.holds().holds),
    "no name": ("holds SET target = CAST(target AS BLOB)", "holds target", lambda s: s.holds().holds),
}


@pytest.mark.parametrize("what", ODD)
def test_what_sqlite_keeps_in_any_column(tmp_path, what: str):
    """It takes other types than those of the table."""
    change, fault, look = ODD[what]
    told: list[UnreadableRow] = []
    with (
        SqliteTaskStore(tmp_path / "chong.db", on_unreadable=told.append) as store,
        closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other,
    ):
        populate(store)
        other.execute("PRAGMA ignore_check_constraints = ON")  # as an older table has none
        other.execute(f"UPDATE {change}")
        found = look(store)
        assert found
        assert {f"{each.table} {each.column}" for each in told} == {fault}
        if fault.startswith("holds"):
            assert sorted(hold.target for hold in found) == ["task-1", "task-2"]
            assert not any("\0" in f"{hold.by} {hold.reason}" for hold in found)  # they go on into other rows


@pytest.mark.parametrize("number", ["'many'", "0", "-1", "2000000000"])
def test_a_number_of_buckets_that_is_none_is_an_error(tmp_path, number):
    """All go by it; no `rebucket` writes such a one, so no node has to end for it."""
    with (
        SqliteTaskStore(tmp_path / "chong.db", on_unreadable=lambda _: None) as store,
        closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other,
    ):
        other.execute(f"UPDATE deployment SET num_buckets = {number}")
        for look in (store.deployment, lambda: store.survey(still=NOW), lambda: refuse_rebucketed(store, 64)):
            with pytest.raises(UnreadableRow, match="store: deployment, column num_buckets: expected a whole number"):
                look()


@pytest.mark.parametrize("column", ["schema_version", "oldest_code"])
def test_a_version_of_the_tables_that_is_none_is_named(tmp_path, column):
    """By whoever opens the file."""
    SqliteTaskStore(tmp_path / "chong.db").close()
    with closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other:
        other.execute(f"UPDATE deployment SET {column} = 'new'")
    with pytest.raises(UnreadableRow, match=f"store: deployment, column {column}: expected a whole number"):
        SqliteTaskStore(tmp_path / "chong.db")


@pytest.mark.parametrize("machine", ["x'ff'", "char(0)"])
def test_a_machine_that_cannot_be_told_hides_no_node(tmp_path, machine: str):
    """It counts as unknown, as the machine of a node whose code does not tell it."""
    told: list[UnreadableRow] = []
    with (
        SqliteTaskStore(tmp_path / "chong.db", on_unreadable=told.append) as store,
        closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other,
    ):
        populate(store)
        other.execute(f"UPDATE nodes SET machine_id = {machine}")
        assert [node.machine_id for node in store.nodes()] == ["", ""]
    assert [(fault.table, fault.column) for fault in told] == [("nodes", "machine_id")] * 2


@pytest.mark.parametrize("name", ["x'ff'", "char(0)"])
def test_a_node_that_nobody_can_name_is_an_error(tmp_path, name: str):
    """To go without it could let two of one name live."""
    with (
        SqliteTaskStore(tmp_path / "chong.db", on_unreadable=lambda _: None) as store,
        closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other,
    ):
        populate(store)
        other.execute(f"UPDATE nodes SET node_id = {name}")
        with pytest.raises(StoreError, match="nodes node-a, column node_id: expected text"):
            store.nodes()
