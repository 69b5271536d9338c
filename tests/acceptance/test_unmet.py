"""A supervisor that ends before it has met its store leaves what it found to the next one."""

import sqlite3
import time
from collections.abc import Callable

import pytest
from node_bench import S, Supervised, is_alive, wait_until


def own_name(db: sqlite3.Connection) -> None:
    db.execute("UPDATE nodes SET node_id = 'other', ttl = 60000000, seen_at = ?", (int(time.time() * 1e6),))


def bad_row(db: sqlite3.Connection) -> None:
    db.execute("UPDATE tasks SET tags = 'nonsense'")


def mend(db: sqlite3.Connection) -> None:
    db.execute("UPDATE nodes SET seen_at = 0")
    db.execute("UPDATE tasks SET tags = '[]'")


def change(node: Supervised, how: Callable[[sqlite3.Connection], None]) -> None:
    with sqlite3.connect(node.paths.default_store) as db:
        how(db)
    db.close()


@pytest.mark.parametrize(("obstacle", "code"), [(own_name, 2), (bad_row, 1)])
def test_a_start_that_fails_ends_no_run(place: Supervised, obstacle: Callable[[sqlite3.Connection], None], code: int):
    """Its forkserver holds it, and the next start that succeeds takes it over."""
    node = place.start(lease=30)
    task_id = node.begun("until", path=str(node.root / "open"))
    worker = node.worker_of(task_id)
    node.kill()
    change(node, obstacle)
    node.start(lease=30, wait=False)
    assert node.supervisor.wait(30) == code
    assert is_alive(worker)
    (left,) = node.events("runs_left")
    assert left["runs"] == [f"{task_id}.1"]
    change(node, mend)
    node.start(lease=30)
    (node.root / "open").touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert len(node.journal("begin")) == 1


def test_sigterm_before_the_store_was_met_stops_nothing(place: Supervised):
    """What was taken over is not known yet: neither drain nor ladder could be told to the store."""
    database = place.elsewhere()
    options = ("--db", str(database), "--drain", "30")
    node = place.start(*options, lease=30)
    task_id = node.begun("until", path=str(node.root / "open"))
    worker = node.worker_of(task_id)
    node.kill()
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    node.start(*options, lease=30, wait=False)
    wait_until(lambda: node.events("waiting_for_store"), "a supervisor that has not met its store")
    assert node.terminate() == 0
    assert is_alive(worker)
    lock.execute("ROLLBACK")
    lock.close()
    node.start(*options, lease=30)
    (node.root / "open").touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert len(node.journal("begin")) == 1
