"""What lies in a node's spool and cannot be read costs what it held, never the node."""

import contextlib
import sqlite3
from itertools import pairwise

import pytest
from node_bench import InProcess, S, seconds, wait_until

DEEP = "[" * 100_000


def spoil(node: InProcess, table: str, task_id: str, content: str | None) -> None:
    """By another hand, while the node runs; without content the row goes."""
    statement = f"DELETE FROM {table}" if content is None else f"UPDATE {table} SET content = :content"
    with contextlib.closing(sqlite3.connect(node.paths.spool, timeout=20, isolation_level=None)) as spool:
        changed = spool.execute(f"{statement} WHERE id = :id", {"id": task_id, "content": content}).rowcount
    assert changed == 1


def fill(node: InProcess) -> str:
    return node.submit("until", path=str(node.root / "open"))


@pytest.mark.parametrize("content", ["{", DEEP, '"\\ud800"', "NaN"])
def test_an_attempt_whose_state_cannot_be_read_begins_without_one(bench: InProcess, content):
    """The state is set aside, and the task is no worse off than at its first attempt."""
    node = bench.start(max_parallel=1)
    task = node.submit("stateful", size=10)
    node.wait_for(fill(node), S.RUNNING)  # it has the one slot from the first failure on
    node.wait_for(task, S.RETRYING)
    wait_until(lambda: task in node.spooled("states"), "the state on the disk")
    spoil(node, "states", task, content)
    (node.root / "open").touch()
    ended = node.end_of(task)
    assert (ended.failure.kind, ended.failure.cause, ended.attempt) == ("exception", "ValueError", 2)
    wait_until(
        lambda: [row["content"] for row in node.spooled("unreadable").values()] == [content], "its being set aside"
    )


def test_a_start_that_cannot_be_handed_over_waits_longer_each_time(bench: InProcess):
    """Without a pause it would fork, and store three changes, as often as the machine can."""
    node = bench.start()
    node.paths.runs.rmdir()
    node.paths.runs.touch()  # what is too large for a frame finds no place
    task = node.submit("echo", text="x" * 100_000)
    wait_until(lambda: node.task(task).unstarted >= 3, "three starts")
    starts = [move.at for move in node.store.history(task) if move.target is S.STARTING]
    first, second = (seconds(earlier, later) for earlier, later in pairwise(starts[:3]))
    assert 0.5 < first < second
    node.paths.runs.unlink()
    node.paths.runs.mkdir()
    ended = node.end_of(task)
    assert (ended.status, ended.attempts_used) == (S.SUCCEEDED, 1)


@pytest.mark.parametrize("content", ["{", DEEP, "[]", None])
def test_a_submission_that_cannot_be_read_any_more_fails_its_task_alone(bench: InProcess, content):
    """Whatever has become of it, or when it is gone."""
    node = bench.start(max_parallel=1)
    blocking = fill(node)
    node.wait_for(blocking, S.RUNNING)
    task = node.submit("noop")
    spoil(node, "submissions", task, content)
    (node.root / "open").touch()
    ended = node.end_of(task)
    assert (ended.failure.kind, ended.failure.cause) == ("protocol", "params_gone")
    wait_until(lambda: node.controller.running == 0, "its slot")
    assert node.run("noop").status is S.SUCCEEDED
