"""An error of chong itself: the process ends, and leaves what runs to the next one."""

import sqlite3
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from node_bench import S, Supervised, is_alive, wait_until

FAILING = Path(__file__).with_name("failing_loop.py")


@pytest.fixture
def failing(place: Supervised) -> Supervised:
    """A supervisor whose main loop fails as soon as there is a file `fail`."""
    place.elsewhere()
    within = (sys.executable, str(FAILING), str(place.root / "fail"))
    return place.start("--db", str(place.database), "--drain", "60", lease=30, within=within)


def test_a_fault_ends_the_process_at_once_whatever_the_store_does(failing: Supervised):
    """A call of the store waits for a lock: its end is not waited for, for nobody renews the leases meanwhile."""
    node = failing
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    lock = sqlite3.connect(node.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    node.submit("noop")
    wait_until(lambda: node.events("store_away"), "an outage")
    (node.root / "fail").touch()
    assert node.supervisor.wait(20) == 1
    ended = time.time()
    [failed] = node.events("main_loop_failed")
    assert ended - datetime.fromisoformat(failed["timestamp"]).timestamp() < 2.5
    lock.close()
    node.start("--db", str(node.database), lease=30)
    assert node.worker_of(task_id) == pid
    node.client.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED


def test_a_fault_during_the_drain_leaves_what_runs(failing: Supervised):
    """The term can no longer speak for its runs, so it ends none of them."""
    node = failing
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    node.supervisor.terminate()
    wait_until(lambda: node.events("draining"), "the drain")
    (node.root / "fail").touch()
    assert node.supervisor.wait(20) == 1
    assert is_alive(pid)
    node.start("--db", str(node.database), lease=30)
    assert node.worker_of(task_id) == pid
    node.client.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED
