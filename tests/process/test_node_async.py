"""Async tasks on a whole node: stop, pause and time-out as they are stored."""

import os
import signal
from collections.abc import Iterator

import pytest
from node_bench import InProcess, S, is_alive, seconds, wait_until

MODULES = ("node_tasks", "node_async_tasks")


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcess]:
    """A node with the async tasks."""
    made = InProcess()
    try:
        yield made.start(modules=MODULES)
    finally:
        made.finish()


def stopped(node: InProcess, task_id: str):
    node.controller.stop(task_id)
    return node.end_of(task_id)


def words(node, task_id: str) -> list[str]:
    return [entry["word"] for entry in node.journal() if entry["id"] == task_id]


def test_an_async_task_succeeds(shared: InProcess):
    """Its time limits of its own are none of chong's."""
    task = shared.run("async.hold", seconds=0.1)
    assert (task.status, task.outcome, words(shared, task.id)) == (S.SUCCEEDED, "held", ["begin", "cleaned"])


def test_a_stop_cancels_it_and_waits_for_its_clean_up(shared: InProcess):
    """All four moments in their order, no force."""
    task = stopped(shared, shared.begun("async.hold"))
    moments = task.stop
    assert (task.status, task.forced, task.failure) == (S.STOPPED, False, None)
    assert moments.asked_at <= moments.delivered_at <= moments.acknowledged_at <= moments.effective_at
    assert words(shared, task.id) == ["begin", "cleaned"]


def test_threads_do_not_hold_up_a_stop(shared: InProcess):
    """Eight at once, each in a call of a minute: all ended well within the first grace, none by force."""
    ids = [shared.begun("async.thread") for _ in range(8)]
    pids = [shared.worker_of(task_id) for task_id in ids]
    for task_id in ids:
        shared.controller.stop(task_id)
    for task in shared.ends_of(ids):
        assert (task.status, task.forced, task.exit_code) == (S.STOPPED, False, 0)
        assert seconds(task.stop.asked_at, task.stop.effective_at) < 5
    assert [pid for pid in pids if is_alive(pid)] == []


def test_one_that_swallows_its_cancellation_is_ended_by_force(shared: InProcess):
    """It goes up the ladder as any other."""
    task = stopped(shared, shared.begun("async.stubborn"))
    assert (task.status, task.forced, task.exit_signal) == (S.STOPPED, True, signal.SIGTERM)


@pytest.mark.parametrize(("name", "end"), [("async.slow", ["begin"]), ("async.interruptible", ["begin", "cleaned"])])
def test_a_clean_up_beyond_its_grace_goes_on_where_the_task_is_interruptible(shared: InProcess, name, end):
    """SIGTERM ends the one, and means nothing to the other, which was cancelled long before."""
    task = stopped(shared, shared.begun(name))
    assert (task.status, task.forced) == (S.STOPPED, True)
    assert words(shared, task.id) == end


def test_a_result_after_a_stop_counts(shared: InProcess):
    """It was complete."""
    task = stopped(shared, shared.begun("async.swallow"))
    assert (task.status, task.outcome) == (S.SUCCEEDED, "swallowed")


def test_a_cancellation_of_its_own_is_a_failure(shared: InProcess):
    """Nobody at chong asked for it."""
    task = shared.run("async.cancels_itself")
    assert (task.status, task.failure.kind, task.failure.message) == (S.FAILED, "exception", "by itself")


def test_a_timeout_cancels_it(shared: InProcess):
    """Its clean-up runs, and it is a time-out all the same."""
    task = shared.run("async.timed")
    assert (task.status, task.failure.kind, task.forced) == (S.FAILED, "timeout", False)
    assert words(shared, task.id) == ["begin", "cleaned"]


def test_what_it_leaves_on_its_loop_changes_nothing(shared: InProcess):
    """It was given up before the teardown's grace was over."""
    task = shared.run("async.leaves")
    assert (task.status, task.outcome, task.exit_code) == (S.SUCCEEDED, {"kept": True}, 0)
    assert shared.notes(task.id) == {}


def test_it_is_paused_resumed_and_stopped_while_paused(shared: InProcess):
    """At its checkpoints, without any force."""
    task_id = shared.begun("async.hold")
    shared.controller.pause(task_id)
    shared.wait_for(task_id, S.PAUSED)
    shared.controller.resume(task_id)
    shared.wait_for(task_id, S.RUNNING)
    shared.controller.pause(task_id)
    shared.wait_for(task_id, S.PAUSED)
    task = stopped(shared, task_id)
    assert (task.status, task.forced) == (S.STOPPED, False)
    assert words(shared, task_id) == ["begin", "cleaned"]


def test_a_frozen_one_is_stopped_when_it_goes_on(shared: InProcess):
    """The stop waits in its channel, and needs no signal."""
    task_id = shared.begun("async.hold")
    pid = shared.worker_of(task_id)
    os.kill(pid, signal.SIGSTOP)
    shared.controller.stop(task_id)
    shared.wait_for(task_id, S.STOPPING)
    wait_until(lambda: shared.task(task_id).stop.delivered_at, "its delivery")
    os.kill(pid, signal.SIGCONT)
    task = shared.end_of(task_id)
    assert (task.status, task.forced) == (S.STOPPED, False)
