"""`pause --freeze`: a task is paused without being asked, and goes on or ends as if it had never stopped."""

import json
import os
import signal
import time

import pytest
from node_bench import InProcess, S, seconds, wait_until
from waiting import state_of

from chong.store.model import TaskSnapshot


def wait_frozen(pid: int) -> None:
    wait_until(lambda: state_of(pid) == "T", "a frozen process")


def freeze(node: InProcess, task_id: str) -> int:
    """Ask, and wait until it is so; the worker's pid."""
    pid = node.worker_of(task_id)
    node.controller.freeze(task_id, "too hot")
    node.wait_for(task_id, S.PAUSED)
    wait_frozen(pid)
    return pid


def begun_mute(node: InProcess) -> str:
    """A task without a checkpoint, that runs until `let_go`."""
    return node.begun("mute.until", path=str(node.root / "open"))


def let_go(node: InProcess) -> None:
    (node.root / "open").touch()


def resumed_end(node: InProcess, task_id: str) -> TaskSnapshot:
    node.controller.resume(task_id)
    let_go(node)
    return node.end_of(task_id)


def test_a_task_without_checkpoints_is_frozen_at_once_and_goes_on(node: InProcess):
    """In one step, by whoever asked; a resume thaws it where it was."""
    task_id = begun_mute(node)
    pid = freeze(node, task_id)
    task = node.task(task_id)
    assert (task.status, task.flags) == (S.PAUSED, {"frozen"})
    moves = [(move.target, move.at, move.actor, move.reason) for move in node.store.history(task_id)[-2:]]
    assert [status for status, *_ in moves] == [S.PAUSING, S.PAUSED]
    assert moves[0][1:] == moves[1][1:] == (task.status_changed_at, node.controller.term, "too hot")
    task = resumed_end(node, task_id)
    assert (task.status, task.flags, task.attempt) == (S.SUCCEEDED, frozenset(), 1)
    assert pid == node.wait_for_word(task_id)["pid"]


def test_frozen_time_does_not_count(node: InProcess):
    """Neither does it end by its time-out, nor has it less of it afterwards."""
    task_id = node.submit("timed.slow")
    started = node.wait_for(task_id, S.RUNNING).started_at
    freeze(node, task_id)
    wait_until(lambda: time.time() > started.timestamp() + 3.5, "the moment of its time-out")
    assert node.task(task_id).status is S.PAUSED
    node.controller.resume(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.failure.kind) == (S.FAILED, "timeout")
    frozen, resumed = node.moment(task_id, S.PAUSED), node.moment(task_id, S.RUNNING)
    ran = seconds(started, frozen.at) + seconds(resumed.at, node.moment(task_id, S.STOPPING).at)
    assert ran == pytest.approx(3, abs=0.5)


def test_a_stop_of_a_frozen_task_lets_it_clean_up(node: InProcess):
    """It is thawed before it is asked, so no force is needed."""
    task_id = node.begun("cleans")
    freeze(node, task_id)
    node.controller.stop(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.forced, task.flags) == (S.STOPPED, False, frozenset())
    assert [entry["word"] for entry in node.journal()] == ["begin", "cleaned"]


def test_a_node_that_goes_down_thaws_what_it_stops(node: InProcess):
    """As a stop does."""
    task_id = node.begun("cleans")
    freeze(node, task_id)
    node.controller.close()
    assert (task := node.task(task_id)).status is S.STOPPED
    assert (task.forced, [entry["word"] for entry in node.journal()]) == (False, ["begin", "cleaned"])


def test_a_freeze_of_a_starting_task_waits_for_its_start(node: InProcess):
    """The command is done when it has taken effect."""
    node.run("noop")
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    wait_frozen(forkserver)
    task_id = node.submit("mute.until", path=str(node.root / "open"))
    node.wait_for(task_id, S.STARTING)
    node.controller.freeze(task_id)
    wait_until(lambda: [c for c in node.store.commands(task_id) if c.claimed_by], "its claim")
    os.kill(forkserver, signal.SIGCONT)
    assert node.wait_for(task_id, S.PAUSED).flags == {"frozen"}
    wait_frozen(node.worker_of(task_id))
    assert [command.outcome for command in node.store.commands(task_id)] == ["done"]
    assert resumed_end(node, task_id).status is S.SUCCEEDED


def test_a_paused_task_may_be_frozen_as_well(node: InProcess):
    """What it does beside its checkpoint, in other threads and processes, then stops too; one resume undoes both."""
    task_id = node.begun("until", path=str(node.root / "open"))
    node.controller.pause(task_id)
    node.wait_for(task_id, S.PAUSED)
    node.controller.freeze(task_id)
    wait_until(lambda: node.task(task_id).flags == {"frozen"}, "its flag")
    wait_frozen(node.worker_of(task_id))
    assert resumed_end(node, task_id).status is S.SUCCEEDED
    assert node.trail(task_id)[-5:] == [S.PAUSING, S.PAUSED, S.PAUSED, S.RUNNING, S.SUCCEEDED]


def test_a_pause_under_way_may_be_frozen(node: InProcess):
    """It would never come to a checkpoint by itself; the pause that it finds when it is thawed is over."""
    task_id = begun_mute(node)
    node.controller.pause(task_id)
    node.wait_for(task_id, S.PAUSING)
    freeze(node, task_id)
    assert resumed_end(node, task_id).status is S.SUCCEEDED
    assert node.trail(task_id).count(S.PAUSED) == 1


def test_what_the_task_has_started_in_its_group_is_frozen_with_it(node: InProcess):
    """Without a cgroup the level is the process group: what has a session of its own goes on."""
    described = node.root / "family.json"
    task_id = node.submit("family", how=str(described), wait=True)
    node.wait_for_word(task_id)
    pids = json.loads(described.read_text())
    freeze(node, task_id)
    wait_frozen(pids["group"])
    assert state_of(pids["session"]) != "T"
    node.controller.resume(task_id)
    wait_until(lambda: state_of(pids["group"]) != "T", "its thaw")
    node.controller.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED


def test_a_frozen_task_keeps_its_lease_and_its_slot(bench: InProcess):
    """It is alive: nobody else may take it for dead, and it still has its memory."""
    node = bench.start(max_parallel=1)
    task_id = node.begun("hold")
    freeze(node, task_id)
    waiting = node.submit("noop")
    until = node.task(task_id).lease_until
    wait_until(lambda: seconds(until, node.task(task_id).lease_until) > 3, "a whole lease of renewals")
    assert [node.task(each).status for each in (task_id, waiting)] == [S.PAUSED, S.QUEUED]


def test_a_frozen_task_that_is_killed_from_outside_has_crashed(node: InProcess):
    """Its flag goes with it."""
    task_id = node.begun("hold")
    os.kill(freeze(node, task_id), signal.SIGKILL)
    task = node.end_of(task_id)
    assert (task.status, task.exit_signal, task.flags) == (S.FAILED, signal.SIGKILL, frozenset())


def test_a_forkserver_that_dies_leaves_frozen_tasks_frozen(node: InProcess):
    """They can be resumed as before."""
    task_id = begun_mute(node)
    pid = freeze(node, task_id)
    os.kill(node.forkserver(), signal.SIGKILL)
    node.run("noop")
    assert (state_of(pid), node.task(task_id).status) == ("T", S.PAUSED)
    assert resumed_end(node, task_id).status is S.SUCCEEDED
