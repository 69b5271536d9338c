"""A new term goes on with what it finds of async tasks and of retry rules, with real processes."""

import os
import signal

from node_bench import S, Supervised, wait_until


def start(place: Supervised, module: str) -> Supervised:
    """Under a long lease: a busy machine must not take the death of a term for one that nobody follows."""
    return place.start("--tasks", module, lease=30)


def test_an_async_task_is_stopped_by_the_next_term(place: Supervised):
    """Its loop goes on meanwhile, and hears the new term's frames."""
    node = start(place, "node_async_tasks")
    task_id = node.begun("async.hold")
    pid = node.worker_of(task_id)
    node.kill()
    start(place, "node_async_tasks")
    assert node.worker_of(task_id) == pid
    assert node.cli("stop", task_id).code == 0
    task = node.end_of(task_id)
    assert (task.status, task.forced, task.attempt) == (S.STOPPED, False, 1)
    assert [entry["word"] for entry in node.journal()] == ["begin", "cleaned"]


def test_a_retry_waits_as_its_own_rule_says_under_the_next_term(place: Supervised):
    """The new term learns the rule only with its catalogue; the default would be a quarter of it."""
    node = start(place, "node_retry_tasks")
    task_id = node.submit("retry.late")
    failed = node.wait_for(task_id, S.RETRYING).status_changed_at
    node.kill()
    start(place, "node_retry_tasks")
    assert node.end_of(task_id).status is S.SUCCEEDED
    started = node.moment(task_id, S.STARTING).at
    assert (started - failed).total_seconds() >= 4


def test_what_the_worker_said_of_a_retry_reaches_the_next_term(place: Supervised):
    """The failure came while nobody read it; it is the last one all the same."""
    node = start(place, "node_retry_tasks")
    path = node.root / "gate"
    task_id = node.begun("retry.gate", path=str(path))
    pid = node.worker_of(task_id)
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    path.touch()
    node.wait_for_word(task_id, "end")
    wait_until(lambda: pid not in node.processes(), "the worker's end")
    node.kill()
    start(place, "node_retry_tasks")
    task = node.end_of(task_id)
    assert (task.status, task.attempt, task.failure.cause) == (S.FAILED, 1, "node_retry_tasks.Final")
