"""Stop, pause and resume as the worker answers them."""

import os
import signal
from pathlib import Path

import pytest
from worker_bench import wait_until


def begin(connection, name, params=None):
    run = connection.start("r.1", name, params)
    run.wait_for("started")
    return run


@pytest.mark.parametrize("name", ["sample.loop", "sample.items", "sample.sleep"])
def test_a_stop_is_answered_and_ends_the_task_without_a_result(connection, name):
    """An `except Exception` around one item does not swallow it, and a half-done task has no verdict."""
    run = begin(connection, name)
    number = run.down("stop")
    run.finish()
    assert run.last("stopping")["answer"] == number
    assert not {"result", "failure"} & set(run.kinds())
    assert connection.release("r.1")["code"] == 0


def test_a_stop_right_behind_go_needs_no_wake(connection):
    """It came before the signal's handler stood, and counts all the same."""
    run = connection.spawn("r.1")
    run.go("sample.loop")
    run.down("stop", wake=False)
    run.finish()
    assert connection.release("r.1")["code"] == 0
    assert "result" not in run.kinds()


def test_a_stop_raises_once_and_stays_requested(connection):
    """A task that caught it may clean up with checkpoints, and is answered for only once."""
    run = begin(connection, "sample.swallow")
    run.down("stop")
    run.down("stop")
    assert run.wait_for("result")["value"] == {"raised": 1, "stop_requested": True}
    assert run.kinds().count("stopping") == 1


def test_a_task_that_asks_may_leave_with_its_result(connection):
    """To look at `stop_requested` is to acknowledge it, so nothing is raised in its last lines."""
    run = begin(connection, "sample.polite")
    number = run.down("stop")
    assert run.wait_for("result")["value"] == "left by itself"
    assert run.last("stopping")["answer"] == number


@pytest.mark.parametrize("name", ["sample.loop", "sample.sleep"])
def test_every_pause_and_resume_is_acknowledged(connection, name):
    """By its number, so that the supervisor knows which of them is in effect."""
    run = begin(connection, name)
    for _ in range(3):
        number = run.down("pause")
        assert run.wait_for("paused")["answer"] == number
        number = run.down("resume")
        assert run.wait_for("resumed")["answer"] == number
    run.down("stop")
    run.wait_for("stopping")


def test_frames_that_pile_up_are_answered_in_order(connection):
    """A worker that was frozen ends in the state that was asked last."""
    run = begin(connection, "sample.loop")
    os.kill(run.pid, signal.SIGSTOP)
    numbers = [run.down(kind) for kind in ("pause", "resume", "pause")]
    os.kill(run.pid, signal.SIGCONT)
    run.wait_for("paused")
    run.wait_for("paused")
    answers = [(f["kind"], f["answer"]) for f in run.frames if f["kind"] in ("paused", "resumed")]
    assert answers == [("paused", numbers[0]), ("resumed", numbers[1]), ("paused", numbers[2])]
    run.down("stop")
    run.wait_for("stopping")


def test_a_paused_task_does_nothing_and_burns_nothing(connection):
    """It waits in the kernel, and sends no heartbeat either."""
    run = begin(connection, "sample.loop")
    run.down("pause")
    run.wait_for("paused")
    wait_until(lambda: _state(run.pid) == "S", "sleep")
    before = _cpu(run.pid)
    with pytest.raises(TimeoutError):
        run.next(0.3)
    assert _cpu(run.pid) - before <= 1


def test_a_stop_ends_a_pause(connection):
    """Nobody has to resume first what is to end."""
    run = begin(connection, "sample.loop")
    run.down("pause")
    run.wait_for("paused")
    number = run.down("stop")
    assert run.wait_for("stopping")["answer"] == number
    assert connection.release("r.1")["code"] == 0


def test_old_numbers_and_a_second_go_are_ignored(connection):
    """The late word of a dead supervisor must not undo what its successor said."""
    run = begin(connection, "sample.loop")
    run.number = [5, 0]
    run.down("pause")
    run.wait_for("paused")
    run.down("stop", n=[4, 99])
    run.down("stop", n=[5, 1])
    run.down("go", n=[5, 2], task={})
    run.number = [6, 0]
    number = run.down("resume")
    assert run.wait_for("resumed")["answer"] == number
    assert "stopping" not in run.kinds()


def test_junk_from_above_is_ignored(connection):
    """A supervisor of another version may say what this worker does not know; the next stop is still obeyed."""
    run = begin(connection, "sample.loop")
    for junk in (b"\xff\x00", b"[1]", b'{"kind":"stop","n":"x"}', b'{"kind":"dance","n":[9,9]}'):
        run.socket.send(junk)
    number = run.down("stop")
    assert run.wait_for("stopping")["answer"] == number


def test_sigterm_raises_in_a_blocking_call_of_an_interruptible_task(connection, node):
    """Its `finally` runs, and its end is an answered stop instead of a death by signal."""
    run = connection.start("r.1", "sample.interruptible")
    run.wait_for("checkpoint")
    number = run.down("stop")
    os.killpg(run.pid, signal.SIGTERM)
    run.finish()
    assert run.last("stopping")["answer"] == number
    assert connection.release("r.1")["code"] == 0
    assert node.log("r.1").read_text() == "cleaned up\n"


@pytest.mark.parametrize("name", ["sample.interruptible", "sample.block"])
def test_sigterm_from_outside_is_its_default_action(connection, name):
    """Nobody asked chong for a stop, so it must not look as if somebody had."""
    run = begin(connection, name)
    os.kill(run.pid, signal.SIGTERM)
    assert connection.release("r.1")["signal"] == signal.SIGTERM


def test_a_start_given_up_before_go_runs_no_user_code(connection):
    """The supervisor may say for certain that the attempt never began."""
    run = connection.spawn("r.1")
    run.next()
    run.socket.shutdown(2)
    assert connection.release("r.1")["code"] == 0
    assert run.finish() == ["ready"]


def test_after_a_shutdown_a_go_that_was_sent_may_not_start(connection):
    """The supervisor has given this start up already; one that began now would run beside its retry."""
    run = connection.spawn("r.1")
    os.kill(run.pid, signal.SIGSTOP)
    run.go("sample.pages")
    run.socket.shutdown(2)
    os.kill(run.pid, signal.SIGCONT)
    connection.release("r.1")
    assert "started" not in run.finish()


def _state(pid):
    return _stat(pid)[0]


def _cpu(pid):
    return int(_stat(pid)[11]) + int(_stat(pid)[12])


def _stat(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
