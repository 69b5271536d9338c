"""Stop, pause and resume, in every state that a task can be in."""

import os
import signal

import pytest
from node_bench import InProcess, S, is_alive, seconds, wait_until
from waiting import state_of

from chong.cli.moments import moments_of
from chong.store.errors import Refused

MARGIN = 0.5
"""What a stop may take beyond its graces."""


def stop(node: InProcess, task_id: str):
    """Ask, and wait for the end."""
    node.controller.stop(task_id, "enough")
    return node.end_of(task_id)


def fill(node: InProcess) -> str:
    """Take the only slot."""
    return node.begun("hold")


def wait_for_beats(node: InProcess, task_id: str) -> None:
    """Until two more of its heartbeats are stored."""
    for _ in range(2):
        seen = node.task(task_id).last_heartbeat_at
        wait_until(lambda seen=seen: node.task(task_id).last_heartbeat_at != seen, "a heartbeat")


def suspend(pid: int) -> None:
    """From outside, and so no freeze."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == "T", "a suspended process")


def test_a_stop_of_a_queued_task_cancels_it(bench: InProcess):
    """It never starts, and its slot was never taken."""
    node = bench.start(max_parallel=1)
    fill(node)
    task_id = node.submit("noop")
    task = stop(node, task_id)
    assert (task.status, task.attempt) == (S.CANCELLED, 0)
    assert task.stop.effective_at is not None
    assert node.trail(task_id) == [S.QUEUED, S.CANCELLED]


def test_a_stop_of_a_retrying_task_cancels_it(node: InProcess):
    """Between two attempts nothing runs."""
    task_id = node.submit("fails.twice")
    node.wait_for(task_id, S.RETRYING)
    assert stop(node, task_id).status is S.CANCELLED


def test_a_stop_of_a_starting_task_keeps_it_from_running(node: InProcess):
    """The forkserver is frozen, so that nothing is forked; the stop is stored at once, and in effect when it can be."""
    node.run("noop")
    forkserver = node.forkserver()
    suspend(forkserver)
    task_id = node.submit("noop")
    node.wait_for(task_id, S.STARTING)
    node.controller.stop(task_id)
    node.wait_for(task_id, S.STOPPING)
    os.kill(forkserver, signal.SIGCONT)
    task = node.end_of(task_id)
    assert (task.status, task.started_at) == (S.STOPPED, None)
    assert [entry for entry in node.journal() if entry["id"] == task_id] == []


def test_a_cooperative_task_is_stopped_at_its_checkpoint(node: InProcess):
    """All four moments of the stop are there, in their order, without any force."""
    task = stop(node, node.begun("cleans"))
    moments = task.stop
    assert (task.status, task.forced, moments.reason) == (S.STOPPED, False, "enough")
    assert moments.asked_at <= moments.delivered_at <= moments.acknowledged_at <= moments.effective_at
    assert seconds(moments.asked_at, moments.effective_at) < 1
    assert [entry["word"] for entry in node.journal()] == ["begin", "cleaned"]


@pytest.mark.parametrize("name", ["deaf", "c.loop"])
def test_a_task_that_ignores_everything_is_ended_by_force(node: InProcess, name):
    """Within both graces and half a second."""
    task = stop(node, node.begun(name))
    assert (task.status, task.forced) == (S.STOPPED, True)
    assert 0.4 <= seconds(task.stop.asked_at, task.ended_at) < 0.4 + 0.4 + MARGIN
    [command] = node.store.commands(task.id)
    assert command.issued_at == task.stop.asked_at < task.stop.delivered_at
    sent = [(note.detail, note.at) for note in node.store.notes(task.id) if note.kind == "signalled"]
    assert sent[0][0] == "SIGTERM to the process group"
    assert len(sent) == 1 + (task.exit_signal == signal.SIGKILL)
    assert task.stop.delivered_at < sent[0][1] <= task.ended_at


def test_an_interruptible_task_cleans_up(node: InProcess):
    """SIGTERM raises inside its blocking call; what it does in `finally` is done."""
    task = stop(node, node.begun("interruptible"))
    assert (task.status, task.exit_code) == (S.STOPPED, 0)
    assert [entry["word"] for entry in node.journal()] == ["begin", "cleaned"]


def test_a_frozen_task_can_be_stopped(node: InProcess):
    """By SIGSTOP from outside: it takes the ladder, and no longer than that."""
    task_id = node.begun("hold")
    suspend(node.worker_of(task_id))
    task = stop(node, task_id)
    assert task.status is S.STOPPED
    assert seconds(task.stop.asked_at, task.ended_at) < 2 + 1 + MARGIN


def test_a_frozen_task_keeps_its_lease(node: InProcess):
    """Progress is no sign of life: its lease is renewed and it goes on afterwards."""
    task_id = node.begun("hold", seconds=1)
    pid = node.worker_of(task_id)
    suspend(pid)
    until = node.task(task_id).lease_until
    wait_until(lambda: seconds(until, node.task(task_id).lease_until) > 3, "a whole lease of renewals")
    assert node.task(task_id).status is S.RUNNING
    os.kill(pid, signal.SIGCONT)
    assert node.end_of(task_id).status is S.SUCCEEDED


def test_a_paused_task_can_be_stopped(node: InProcess):
    """It waits inside its checkpoint, and leaves it by the stop."""
    task_id = node.begun("hold")
    node.controller.pause(task_id)
    node.wait_for(task_id, S.PAUSED)
    task = stop(node, task_id)
    assert (task.status, task.forced) == (S.STOPPED, False)


def test_a_second_stop_changes_nothing(node: InProcess):
    """It is accepted, and the first one's moments stay."""
    task_id = node.begun("deaf")
    first = node.controller.stop(task_id, "first")
    node.wait_for(task_id, S.STOPPING)
    node.controller.stop(task_id, "second")
    task = node.end_of(task_id)
    assert task.stop.reason == "first"
    wait_until(lambda: all(c.outcome for c in node.store.commands(task_id)), "both commands' ends")
    assert next(c.id for c in node.store.commands(task_id)) == first.id


def test_pause_resume_and_pause_again(node: InProcess):
    """Each pause anew; while it lasts there is no progress."""
    task_id = node.begun("hold")
    for _ in range(2):
        node.controller.pause(task_id)
        node.wait_for(task_id, S.PAUSED)
        done = wait_until(lambda: node.task(task_id).progress, "progress").done
        node.controller.resume(task_id)
        node.wait_for(task_id, S.RUNNING)
        wait_until(lambda done=done: node.task(task_id).progress.done > done, "progress after the pause")
    pauses = [status for status in node.trail(task_id) if status in (S.PAUSING, S.PAUSED)]
    assert pauses == [S.PAUSING, S.PAUSED] * 2


def test_a_paused_task_makes_no_progress(node: InProcess):
    """It stays where its checkpoint was."""
    task_id, bystander = node.begun("hold"), node.begun("hold")
    node.controller.pause(task_id)
    node.wait_for(task_id, S.PAUSED)
    wait_for_beats(node, bystander)  # one write carries all tasks' progress: what came before the pause is stored now
    first = node.task(task_id)
    renewed = node.controller.renewals
    wait_until(lambda: node.controller.renewals > renewed + 1, "two renewals")
    wait_for_beats(node, bystander)
    assert node.task(task_id).progress == first.progress
    assert node.task(task_id).lease_until > first.lease_until


def test_a_pause_of_a_starting_task_waits_for_its_start(node: InProcess):
    """It takes effect at the first checkpoint."""
    node.run("noop")
    forkserver = node.forkserver()
    suspend(forkserver)
    task_id = node.submit("hold")
    node.wait_for(task_id, S.STARTING)
    command = node.controller.pause(task_id)
    wait_until(lambda: [c for c in node.store.commands(task_id) if c.claimed_by], "its claim")
    os.kill(forkserver, signal.SIGCONT)
    node.wait_for(task_id, S.PAUSED)
    (known,) = node.store.commands(task_id)
    assert (known.id, known.outcome) == (command.id, "done")
    assert set(moments_of(known, node.store.history(task_id)).came) == {"delivered", "acknowledged", "effective"}


def test_a_queued_task_cannot_be_paused(bench: InProcess):
    """Refused at once, with the state it is in."""
    node = bench.start(max_parallel=1)
    fill(node)
    task_id = node.submit("noop")
    with pytest.raises(Refused, match="is queued: only an attempt under way"):
        node.controller.pause(task_id)


@pytest.mark.parametrize("action", ["stop", "pause", "resume"])
def test_what_has_ended_cannot_be_asked(node: InProcess, action):
    """A final state never changes."""
    task = node.run("noop")
    with pytest.raises(Refused, match="it is succeeded"):
        getattr(node.controller, action)(task.id)


@pytest.mark.parametrize("action", ["stop", "pause", "resume"])
def test_an_unknown_task_cannot_be_asked(node: InProcess, action):
    """No command is left behind."""
    with pytest.raises(Refused, match="no task has the id"):
        getattr(node.controller, action)("0190ab00-0000-7000-8000-000000000000")


def test_a_stop_is_delivered_within_one_poll(node: InProcess):
    """From the stored command to the worker's own `stopping`, by their own clocks."""
    task_id = node.begun("hold", every=0.001)
    command = node.controller.stop(task_id)
    task = node.end_of(task_id)
    assert seconds(command.issued_at, task.stop.acknowledged_at) < 0.05 + 0.5


def test_stopped_workers_leave_nothing(node: InProcess):
    """Sixteen at once, half of them deaf."""
    ids = [node.begun(name) for name in ["hold", "deaf"] * 8]
    pids = [node.worker_of(task_id) for task_id in ids]
    for task_id in ids:
        node.controller.stop(task_id)
    assert {task.status for task in node.ends_of(ids)} == {S.STOPPED}
    assert [pid for pid in pids if is_alive(pid)] == []


def test_renewal_is_the_last_to_stop(node: InProcess):
    """What is started first is closed last: whatever else takes its time to end, leases are kept up meanwhile."""
    tickers = node.controller._term.tickers
    assert tickers.all[0]._act == tickers.keeper.renew
