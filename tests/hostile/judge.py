"""Runs one row of the table on a node, and holds what became of it against the row."""

import os
import signal
from collections.abc import Callable
from typing import Any

from node_bench import S, Supervised, wait_until
from table import Row
from waiting import state_of

LEASE = 6.0
RENEWAL = LEASE / 6
TASKS = ("bad_tasks", "assault_tasks", "flood_tasks", "vandal_tasks", "sample_tasks")
MODULES = tuple(word for module in TASKS for word in ("--tasks", module))
TRACEBACK_LIMIT = 64 * 1024


def start(place: Supervised, *options: str, lease: float = LEASE, **more: Any) -> Supervised:
    """A term with the ordinary tasks and the hostile ones."""
    return place.start(*MODULES, *options, lease=lease, **more)


def wait_for_state(node: Supervised, task_id: str, state: str) -> None:
    pid = node.worker_of(task_id)
    wait_until(lambda: state_of(pid) == state, f"state {state}")


def stop(node: Supervised, task_id: str) -> None:
    node.client.stop(task_id, "enough")


def kill(node: Supervised, task_id: str) -> None:
    os.kill(node.worker_of(task_id), signal.SIGKILL)


def terminate(node: Supervised, task_id: str) -> None:
    os.kill(node.worker_of(task_id), signal.SIGTERM)


def freeze_and_stop(node: Supervised, task_id: str) -> None:
    os.kill(node.worker_of(task_id), signal.SIGSTOP)
    stop_when_frozen(node, task_id)


def stop_when_frozen(node: Supervised, task_id: str) -> None:
    wait_for_state(node, task_id, "T")
    stop(node, task_id)


def stop_when_in_state_d(node: Supervised, task_id: str) -> None:
    wait_for_state(node, task_id, "D")
    stop(node, task_id)


def stop_in_the_flood(node: Supervised, task_id: str) -> None:
    (node.root / f"go-{task_id}").touch()
    wait_until((node.root / f"sent-{task_id}").exists, "the flood")
    stop(node, task_id)


ACTS: dict[str, Callable[[Supervised, str], None]] = {
    act.__name__.replace("_", " "): act
    for act in (stop, kill, terminate, freeze_and_stop, stop_when_frozen, stop_in_the_flood)
} | {"stop when in state D": stop_when_in_state_d}


def perform(node: Supervised, row: Row) -> None:
    """Submit it, do to it what the row says, and judge its end."""
    task_id = node.submit(row.task, **row.params)
    if row.then is not None:
        node.wait_for_word(task_id)
        node.wait_for(task_id, S.RUNNING)
        ACTS[row.then](node, task_id)
    judge(node, task_id, row)


def judge(node: Supervised, task_id: str, row: Row) -> None:
    task = node.end_of(task_id)
    failure: Any = task.failure
    found = (task.status, failure and failure.kind, failure and failure.cause, task.exit_code, task.exit_signal)
    assert found == (row.status, row.kind, row.cause, row.code, row.signal), failure
    assert (task.forced, task.outcome, task.attempt) == (row.forced, row.outcome, 1)
    if failure is not None:
        assert row.message in failure.message
        assert len(failure.message) <= 500
        assert len((failure.traceback or "").encode()) <= TRACEBACK_LIMIT
    assert ("odd_exit" in node.notes(task_id)) is row.odd
    assert row.log in node.paths.log_of(task.run).read_text(errors="replace")
    assert node.trail(task_id)[:3] == [S.QUEUED, S.STARTING, S.RUNNING]
