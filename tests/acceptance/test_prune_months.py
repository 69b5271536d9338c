"""Pruning a PostgreSQL store by the command line: a month that is done with goes whole, and nothing goes unarchived."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from node_bench import S, Supervised
from pg_server import Databases, url_of
from psycopg import conninfo

from chong.store.model import TaskSnapshot
from chong.store.partitions import Month, keep_months
from chong.store.postgres_connection import Connection
from chong.store.specimens import moved, put, stored_end, stored_run

NOW = datetime.now(UTC)
DONE, MIXED, YOUNG = (NOW - timedelta(days=days) for days in (400, 300, 30))
"""A day in a month of which everything is old, in one of which a task is still open, and in one that is too young."""
PRUNE = ("prune", "--older-than", "90d")


class Past:
    """A store with a history. `old` may go; `young` and the open task may not."""

    def __init__(self, outside: Supervised) -> None:
        self.outside = outside
        self.store = outside.store
        for day in (DONE, MIXED, YOUNG):
            with Connection.connect(str(outside.address)) as connection:
                keep_months(connection, day)
            waits = stored_run(self.store, id=id_of(day, 1000))  # keeps its month until all are there
            put(self.store, waits, moved(waits, S.RETRYING))
        self.old = {self._ended(DONE, number) for number in range(120)}
        self.old |= {self._ended(MIXED, number) for number in range(5)}
        self.kept = {self._ended(YOUNG, number) for number in range(5)} | {id_of(day, 1000) for day in (MIXED, YOUNG)}
        last = self.read(id_of(DONE, 1000))
        put(self.store, last, moved(last, S.CANCELLED, ended_at=DONE))
        self.old.add(last.id)
        assert self.months() >= {day_month(day) for day in (DONE, MIXED, YOUNG)}

    def _ended(self, day: datetime, number: int) -> str:
        return stored_end(self.store, id=id_of(day, number), ended_at=day).id

    def read(self, task_id: str) -> TaskSnapshot:
        found = self.store.get(task_id)
        assert found is not None
        return found

    def months(self) -> set[str]:
        asked = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'transitions'::regclass"
        return set(self._column(asked))

    def tasks(self) -> set[str]:
        """The tasks that are there; none of them without a trail, and no trail without its task."""
        tasks = set(self._column("SELECT id::text FROM tasks"))
        assert tasks == set(self._column("SELECT task_id::text FROM transitions"))
        return tasks

    def _column(self, query: str) -> list[str]:
        with psycopg.connect(str(self.outside.address)) as connection:
            return [value for (value,) in connection.execute(query)]


def id_of(day: datetime, number: int) -> str:
    digits = f"{int(day.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


def day_month(day: datetime) -> str:
    return Month.of(day).table


@pytest.fixture
def past(outside: Supervised) -> Past:
    return Past(outside)


def test_a_month_that_is_done_with_goes_whole(past: Past, tmp_path: Path):
    """What is old in other months goes too; an open task keeps its month, and all of its trail."""
    trail = past.store.history(id_of(MIXED, 1000))
    path = tmp_path / "old.jsonl.gz"
    answer = past.outside.cli(*PRUNE, "--archive", str(path))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{len(past.old)} tasks removed")
    archived = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    assert {line["task"]["id"] for line in archived} == past.old
    assert all(len(line["history"]) >= 3 for line in archived)
    assert past.tasks() == past.kept
    assert past.store.history(id_of(MIXED, 1000)) == trail
    assert len(trail) == 3
    assert past.months() & {day_month(day) for day in (DONE, MIXED, YOUNG)} == {day_month(MIXED), day_month(YOUNG)}


@pytest.mark.parametrize("fault", ["no directory", "there already", "no room"])
def test_an_archive_that_cannot_be_written_costs_nothing(past: Past, tmp_path: Path, fault: str):
    """One line, and every task and month stays."""
    path = tmp_path / ("no/a.jsonl" if fault == "no directory" else "a.jsonl")
    if fault == "there already":
        path.write_text("mine\n")
    months = past.months()
    room = ["prlimit", "--fsize=100"] if fault == "no room" else []
    done = subprocess.run(
        [*room, sys.executable, "-m", "chong.cli", *PRUNE, "--archive", str(path)],
        env={**past.outside.environment, "CHONG_STATE_DIR": str(past.outside.state)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1 if fault == "no room" else 2, "", 1)
    assert past.tasks() == past.old | past.kept
    assert past.months() == months
    if fault == "there already":
        assert path.read_text() == "mine\n"


@pytest.fixture
def writer(outside: Supervised, databases: Databases) -> Iterator[str]:
    """The address of a role that may read and write, and owns no table."""
    said = conninfo.conninfo_to_dict(str(outside.address))
    role, database = f"writer_{said['dbname']}", str(said["dbname"])
    databases.execute(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
        database=database,
    )
    try:
        yield url_of(said | {"user": role})
    finally:
        databases.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}", database=database)


def test_a_role_that_owns_no_table_prunes_all_the_same(past: Past, writer: str):
    """The empty month is left to the supervisors; one line says so."""
    past.outside.environment["CHONG_DB"] = writer
    months = past.months()
    answer = past.outside.cli(*PRUNE)
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.out.startswith(f"{len(past.old)} tasks removed")
    assert "stay until a supervisor drops them" in answer.err
    assert "expected the role that owns chong's tables" in answer.err
    assert past.tasks() == past.kept
    assert past.months() == months
