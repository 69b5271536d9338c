"""The logs of runs stay in their bounds over the deaths of supervisors."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from node_bench import S, Supervised, wait_until

from chong.store.model import Transition

MEBIBYTE = 1024 * 1024
OPTIONS = ("--tasks", "log_tasks")


def is_cut(log: Path) -> bool:
    """Whether it has been longer than what it takes; its bound is a mebibyte."""
    facts = log.stat()
    return facts.st_blocks * 512 < facts.st_size // 2


@pytest.fixture
def node(place: Supervised) -> Supervised:
    """Whose forkserver waits for long."""
    return place.start(*OPTIONS, lease=60)


def begun_flood(node: Supervised) -> tuple[str, Path]:
    """A run that writes until `let_go`, whose supervisor was killed while it was below its bound."""
    task_id = node.submit("log.floods.later", path=str(node.root / "flood"), until=str(node.root / "open"))
    node.wait_for(task_id, S.RUNNING)
    node.kill()
    (node.root / "flood").touch()
    log = node.paths.log_of(f"{task_id}.1")
    wait_until(lambda: log.stat().st_size > 4 * MEBIBYTE, "a flood")
    assert not is_cut(log)
    return task_id, log


def let_go(node: Supervised) -> None:
    (node.root / "open").touch()


def test_a_flood_is_cut_before_the_store_is_met(node: Supervised):
    """A store that is away for hours must not cost the disk."""
    task_id, log = begun_flood(node)
    with closing(sqlite3.connect(node.paths.default_store)) as other:
        other.execute("BEGIN IMMEDIATE")
        node.start(*OPTIONS, lease=60, wait=False)
        wait_until(lambda: node.events("waiting_for_store"), "a term that has not met its store")
        wait_until(lambda: is_cut(log), "a cut")
        other.rollback()
    let_go(node)
    assert node.end_of(task_id).status is S.SUCCEEDED


def test_the_log_of_a_run_that_was_called_lost_while_it_lives_is_cut(node: Supervised):
    """It ends as soon as the next term finds it; what it has written is in its bound all the same."""
    task_id, log = begun_flood(node)
    call_lost(node, task_id)
    node.start(*OPTIONS, lease=60)
    node.wait_for_note(task_id, "late_result")
    wait_until(lambda: is_cut(log), "the last cut")


def call_lost(node: Supervised, task_id: str) -> None:
    task, now = node.task(task_id), datetime.now(UTC)
    lost = replace(task, status=S.LOST, version=task.version + 1, status_changed_at=now, ended_at=now)
    move = Transition(
        task_id=task_id, version=lost.version, source=task.status, target=S.LOST,
        at=now, actor="somebody", event_id="somebody.else",
    )  # fmt: skip
    node.store.save(lost, [move], expect_version=task.version)
