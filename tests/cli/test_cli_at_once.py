"""The same command twice at one time, each in a process of its own: each says what it has done."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from cli_world import World, clean_environment
from waiting import wait_until

from chong.store.model import LeaseGrant, Save, TaskSnapshot
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import TERM, moved, node_record, queued, save_of, term_record
from chong.store.states import Status

ENDED = datetime.now(UTC) - timedelta(days=100)
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@contextmanager
def begun(state: Path, *commands: tuple[str, ...]) -> Iterator[list[subprocess.Popen[str]]]:
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "chong.cli", *words],
            env=clean_environment(state), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for words in commands
    ]  # fmt: skip
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def answers(children: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    found = []
    for child in children:
        out, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (0, "")
        found.append(json.loads(out))
    return found


def ended(number: int) -> list[Save]:
    """A task that ran and ended long ago, state by state."""
    task: TaskSnapshot = queued(number)
    saves = [save_of(None, task)]
    for status, more in (
        (Status.STARTING, {"attempt": 1}),
        (Status.RUNNING, {}),
        (Status.SUCCEEDED, {"ended_at": ENDED}),
    ):
        new = moved(task, status, lease_owner=TERM, **more)
        lease = LeaseGrant(TERM, timedelta(seconds=30)) if status is Status.STARTING else None
        saves.append(save_of(task, new, lease=lease))
        task = new
    return saves


def test_two_archives_have_each_task_once(world: World, tmp_path: Path):
    """Both have written the same tasks down when one removes them; the other takes them out of its own again."""
    saves = [ended(number) for number in range(1, 451)]
    for step in zip(*saves, strict=True):
        assert set(world.store.save_many(step)) == {None}
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    words = [("prune", "--older-than", "90d", "--json", "--archive", str(path)) for path in paths]
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # they can read, and wait to remove
        with begun(world.state, *words) as children:
            wait_until(lambda: all(path.exists() and path.stat().st_size for path in paths), "both to have archived")
            other.execute("COMMIT")
            said = answers(children)
    kept = [[json.loads(line)["task"]["id"] for line in path.read_text().splitlines()] for path in paths]
    assert [each["tasks"] for each in said] == list(map(len, kept))
    assert sorted(kept[0] + kept[1]) == sorted(steps[0].snapshot.id for steps in saves)
    assert world.store.count_prunable(timedelta(days=90)) == 0


def test_two_that_forget_a_node_each_tell_what_they_have_closed(database: str, tmp_path: Path):
    """Whoever finds the node gone in the end has not failed: it is forgotten, by the other one."""
    with PostgresTaskStore(database) as store, psycopg.connect(database) as other:
        store.record_num_buckets(64)
        store.register_term(term_record(), node_record(ttl=timedelta(0)))
        for first in range(1, 3501, 500):
            assert set(store.save_many([save_of(None, queued(first + place)) for place in range(500)])) == {None}
        other.execute("SELECT 1 FROM deployment FOR UPDATE")
        words = ("--db", database, "forget", "node-a", "--yes", "--json")
        with begun(tmp_path, words, words) as children, psycopg.connect(database, autocommit=True) as watching:
            wait_until(lambda: watching.execute(WAITS).fetchone() == (2,), "both to wait")
            other.commit()
            said = answers(children)
        assert sum(each["lost"] for each in said) == 3500
        assert min(each["lost"] for each in said) >= 1000
        assert store.nodes() == []


def test_a_second_one_that_comes_too_late_says_that_there_is_no_such_node(world: World, chong):
    """It has done nothing."""
    with world.ago(60):
        world.add_node("node-b", None)
    assert chong("forget", "node-b", "--yes").code == 0
    late = chong("forget", "node-b", "--yes")
    assert (late.code, late.err.startswith("chong: no node is called 'node-b'")) == (1, True)
