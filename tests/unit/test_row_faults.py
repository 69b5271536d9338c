"""What a supervisor says of rows that it cannot read."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from chong.store.alert import Finding
from chong.store.errors import UnreadableRow
from chong.store.model import Note
from chong.store.specimens import (
    LATER_TERM,
    START,
    TERM,
    TTL,
    node_record,
    request,
    stored_end,
    stored_queued,
    stored_run,
    term_record,
)
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status
from chong.supervisor.monitor import Monitor
from chong.supervisor.paths import Paths
from chong.supervisor.recover import find
from chong.supervisor.recurring import Recurring
from chong.supervisor.retention import StoreRetention
from chong.supervisor.row_faults import EVERY_SECONDS, MOST, RowFaults
from chong.supervisor.scene import Scene


def fault(number: int = 1, table: str = "holds") -> UnreadableRow:
    return UnreadableRow(table, f"key-{number}", "since", "a time", "noon")


def test_each_fault_is_told_at_once_and_then_seldom():
    """However often its row is read."""
    now = [0.0]
    with capture_logs() as said:
        faults = RowFaults(structlog.get_logger(), clock=lambda: now[0])
        for number in (1, 1, 2, 1, 2):
            faults.tell(fault(number))
        assert [each["error"] for each in said] == [str(fault(1)), str(fault(2))]
        now[0] = EVERY_SECONDS
        faults.tell(fault(1))
    assert [each["event"] for each in said] == ["row_unreadable"] * 3


def test_of_very_many_the_first_are_told():
    """A log has a bound, and so has what is remembered."""
    with capture_logs() as said:
        faults = RowFaults(structlog.get_logger())
        for number in range(2 * MOST):
            faults.tell(fault(number))
    assert len(said) == MOST


@pytest.mark.parametrize("table", ["leases", "terms"])
def test_what_says_who_lives_is_not_done_without(table):
    """Nobody is judged by a part of it."""
    with pytest.raises(UnreadableRow):
        RowFaults(structlog.get_logger()).tell(fault(table=table))


@contextmanager
def damaged(path, change: str) -> Iterator[SqliteTaskStore]:
    """A supervisor's store, with a change by somebody else."""
    faults = RowFaults(structlog.get_logger())
    with (
        SqliteTaskStore(path / "chong.db", on_unreadable=faults.tell) as store,
        closing(sqlite3.connect(path / "chong.db", isolation_level=None)) as other,
    ):
        store.register_term(term_record(), node_record())
        stored_queued(store, 1)
        stored_run(store, 2)
        for number in (11, 12):
            task = stored_end(store, number)
            store.append([Note(task_id=task.id, kind="k", at=START, actor="a", event_id="1")])
        other.execute(f"UPDATE {change}")
        yield store


@pytest.mark.parametrize(
    "change",
    [
        "tasks SET flags = '{}' WHERE id < '00000002'",
        "tasks SET flags = '{}' WHERE id BETWEEN '00000002' AND '00000003'",
        "transitions SET at = 'noon' WHERE task_id BETWEEN '00000002' AND '00000003'",
    ],
    ids=["waiting", "running", "the trail of a run"],
)
def test_no_term_begins_with_a_part_of_its_work(tmp_path, change):
    """What it does not see has not begun, as far as it knows, and would be run twice."""
    with damaged(tmp_path, change) as store:
        scene = Scene(
            term=term_record(LATER_TERM),
            node=node_record(LATER_TERM),
            owned_buckets=None,
            num_buckets=None,
            ttl=TTL,
            paths=Paths(tmp_path / "state", tmp_path / "run"),
            attached=frozenset(),
            served=frozenset({(TERM, 3)}),
            silent=frozenset(),
            accepted={},
            stored=frozenset(),
        )
        with pytest.raises(UnreadableRow):
            find(store, scene)
        assert store.stats()[Status.QUEUED] == 1
        assert [(lease.term, lease.renewals) for lease in store.leases()] == [(TERM, 0)]


@pytest.mark.parametrize(
    "change", ["commands SET issued_at = 'noon', stored_at = NULL", "rebucketings SET at = 'noon'"]
)
def test_alerts_are_kept_beside_what_a_survey_cannot_read(tmp_path, change):
    """Else one request to a node that is gone would end them for the whole deployment."""
    looks: list[Sequence[Finding]] = []
    log = structlog.get_logger()
    with capture_logs() as said, damaged(tmp_path, "tasks SET flags = '[]'") as store:
        store.submit_command(request(1, stored_run(store, 3)))
        with closing(sqlite3.connect(tmp_path / "chong.db", isolation_level=None)) as other:
            other.execute(
                'INSERT INTO rebucketings (event_id, at, "by", before, after, waiting, moved)'
                " VALUES ('e', 1, 'o', 1, 2, 0, 0)"
            )
            other.execute(f"UPDATE {change}")
        Monitor(
            store,
            TERM,
            every=1,
            orphan_after=1,
            configured={},
            on_changes=lambda _, found: looks.append(found),
            trouble=Recurring(log, "monitor_failed", "monitor_recovered"),
        ).look()
    assert len(looks) == 1
    assert {each["event"] for each in said} == {"row_unreadable"}


@pytest.mark.parametrize("change", ["tasks SET flags = '{}'", "transitions SET at = 'noon'", "notes SET at = 'noon'"])
def test_what_cannot_be_read_keeps_nothing_else_from_being_removed(tmp_path, change):
    """It stays, and is told; that the others go is no trouble."""
    column = "id" if change.startswith("tasks") else "task_id"
    with capture_logs() as said, damaged(tmp_path, f"{change} WHERE {column} > '0000000c'") as store:
        log = structlog.get_logger()
        gone: list[dict[str, int]] = []
        StoreRetention(
            store,
            timedelta(seconds=1) / timedelta(days=1),
            on_pruned=gone.append,
            tables=Recurring(log, "tables_not_kept_up", "tables_kept_up"),
            rows=Recurring(log, "store_not_pruned", "store_pruned"),
        ).turn()
        assert gone == [{"tasks": 1}]
        assert store.stats()[Status.SUCCEEDED] == 1
    assert {each["event"] for each in said} == {"row_unreadable"}
