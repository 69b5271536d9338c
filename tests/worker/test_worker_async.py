"""Async tasks: one event loop, cancelled once by a stop, and nothing on it outlives or changes the verdict."""

import os
import signal
import socket
from pathlib import Path

import psutil
import pytest
from worker_bench import Connection, Node, is_alive, wait_until


@pytest.fixture
def connection(node: Node) -> Connection:
    return node.start(("async_tasks",)).attach()


def begin(connection, name, params=None):
    """Start it, and wait for its first checkpoint."""
    run = connection.start("r.1", name, params)
    run.wait_for("checkpoint")
    return run


def end(connection, run):
    """Its kinds of frames from the first checkpoint on, and its exit."""
    kinds = run.finish()
    return [kind for kind in kinds if kind not in ("ready", "started", "checkpoint")], connection.release("r.1")


def stop(connection, run):
    """Ask, and see it end by itself: an answered stop, neither result nor failure."""
    number = run.down("stop")
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["stopping"], 0)
    assert run.last("stopping")["answer"] == number


def failure_of(connection, name, **params):
    return connection.start("r.1", name, params).wait_for("failure")["failure"]


def test_an_async_task_returns_its_result(connection):
    """With its parameters bound, and its progress reported, as any other."""
    run = connection.start("r.1", "async.pages", {"count": 3})
    assert run.wait_for("result")["value"] == {"pages": 3, "key": "acme"}
    assert run.last("checkpoint")["done"] == 3
    assert connection.release("r.1")["code"] == 0


@pytest.mark.parametrize("name", ["partial", "instance", "method", "wrapped"])
def test_whatever_returns_a_coroutine_is_run(connection, name):
    """Authors wrap their functions; what counts is what the call returns."""
    run = connection.start("r.1", f"async.{name}", {"first": 1} if name == "partial" else {"first": 1, "second": 2})
    assert run.wait_for("result")["value"] == 3


def test_another_awaitable_is_no_result(connection):
    """Nobody knows which loop it belongs to."""
    assert failure_of(connection, "async.future")["kind"] == "result_invalid"


@pytest.mark.parametrize("name", ["async.wait", "async.loop"])
def test_a_stop_cancels_the_task(connection, node, name):
    """Whether it waits or looks; its clean-up runs, and no checkpoint raises."""
    stop(connection, begin(connection, name))
    assert node.log("r.1").read_text() == {"async.wait": "cleaned True\n", "async.loop": "raised 0\n"}[name]


def test_a_stop_needs_no_signal(connection):
    """The loop watches the channel itself."""
    run = begin(connection, "async.wait")
    run.down("stop", wake=False)
    assert end(connection, run)[0] == ["stopping"]


def test_a_stop_right_behind_go_runs_nothing_of_the_task(connection, node):
    """A coroutine that was cancelled before its first step has nothing to clean up."""
    run = connection.spawn("r.1")
    os.kill(run.pid, signal.SIGSTOP)
    run.go("async.wait")
    run.down("stop", wake=False)
    os.kill(run.pid, signal.SIGCONT)
    kinds = end(connection, run)[0]
    assert "result" not in kinds
    assert node.log("r.1").read_text() == ""


def test_a_second_stop_does_not_cancel_again(connection, node):
    """Clean-up that awaits would be broken off."""
    gate = node.root / "gate"
    run = begin(connection, "async.gated", {"gate": str(gate)})
    run.down("stop")
    run.wait_for("stopping")
    for _ in range(3):
        run.down("stop")
    before = len(run.frames)
    wait_until(lambda: run.next() and len(run.frames) > before + 1, "checkpoints of the clean-up")
    gate.touch()
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["stopping"], 0)
    assert node.log("r.1").read_text() == "cancelled\ncleaned\n"


@pytest.mark.parametrize("name", ["async.swallow", "async.polite", "async.checks"])
def test_a_task_that_returns_all_the_same_has_its_result(connection, name):
    """A complete result counts first, also one that came in the very step that saw the stop."""
    run = begin(connection, name)
    run.down("stop")
    expected = {"async.swallow": "swallowed", "async.polite": "left by itself", "async.checks": "done"}[name]
    assert run.wait_for("result")["value"] == expected
    assert run.kinds().count("stopping") == 1


@pytest.mark.parametrize(
    ("how", "cause", "words"),
    [
        ("plain", "ValueError", "that was wrong"),
        ("exit", "SystemExit", "0"),
        ("keyboard", "KeyboardInterrupt", ""),
        ("cancelled", "asyncio.exceptions.CancelledError", ""),
        ("cancels itself", "asyncio.exceptions.CancelledError", ""),
        ("stopped unasked", "chong.worker.TaskStopped", "nobody asked"),
        ("group", "ExceptionGroup", "1 sub-exception"),
        ("timeout", "TimeoutError", ""),
        ("exit elsewhere", "SystemExit", "3"),
        ("stopped loop", "RuntimeError", "Event loop stopped before Future completed"),
    ],
)
def test_whatever_leaves_the_task_is_a_failure(connection, how, cause, words):
    """A cancellation that nobody at chong asked for is none of chong's."""
    failure = failure_of(connection, "async.fail", how=how)
    assert (failure["kind"], failure["cause"]) == ("exception", cause)
    assert words in failure["message"]
    assert connection.release("r.1")["code"] == 1


def test_the_traceback_begins_in_the_task(connection):
    """Frames of the event loop above it say nothing."""
    text = failure_of(connection, "async.fail", how="plain")["traceback"]
    assert text.splitlines()[1].strip().startswith(f'File "{Path(__file__).parent}/async_tasks.py"')


def test_the_sleep_of_plain_tasks_is_refused(connection):
    """It would hold up the loop, and a stop with it."""
    failure = failure_of(connection, "async.context_sleep")
    assert failure["message"] == "sleep: expected `await asyncio.sleep(...)` in an async task, got ctx.sleep"


@pytest.mark.parametrize("name", ["async.thread", "async.daemon"])
def test_a_thread_does_not_hold_up_a_stop(connection, name):
    """It cannot be cancelled, and ends with the process."""
    stop(connection, begin(connection, name))


def test_a_thread_is_waited_for_without_a_stop(connection):
    """Its work is part of the task."""
    assert connection.start("r.1", "async.thread", {"seconds": 0.1}).wait_for("result")["value"] == "slept"


def test_a_thread_sees_the_stop(connection, node):
    """By `stop_requested`; nothing can be raised there."""
    stop(connection, begin(connection, "async.threads_look"))
    assert node.log("r.1").read_text() == "the thread saw it\n"


def test_a_pause_holds_the_whole_loop(connection):
    """At a checkpoint; nothing else on the loop goes on meanwhile."""
    run = begin(connection, "async.pause")
    for _ in range(2):
        number = run.down("pause")
        assert run.wait_for("paused")["answer"] == number
        with pytest.raises(TimeoutError):
            run.next(0.2)
        done = run.last("checkpoint")["done"]
        number = run.down("resume")
        assert run.wait_for("resumed")["answer"] == number
        assert run.wait_for("checkpoint")["done"] <= done + 2


def test_a_stop_beats_a_pause(connection):
    """The task is cancelled when its checkpoint returns."""
    run = begin(connection, "async.pause")
    run.down("pause")
    run.wait_for("paused")
    number = run.down("stop")
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["paused", "stopping"], 0)
    assert run.last("stopping")["answer"] == number


def test_asyncio_is_all_there(connection):
    """Subprocesses, groups, time limits, signal handlers, context variables."""
    assert connection.start("r.1", "async.library").wait_for("result")["value"] == {
        "context": "me",
        "current": False,
        "output": "out\n",
        "code": 3,
        "group": [2, 3],
        "timeout": True,
        "signal": True,
    }


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cleans", "the other one cleaned up"),
        ("fails", "ValueError: in the other one's clean-up"),
        ("exits", "SystemExit: 7"),
        ("hangs", "a task did not end within 2 s of being cancelled"),
        ("generator", "the generator was closed"),
    ],
)
def test_what_is_left_on_the_loop_is_ended_and_changes_nothing(connection, node, how, words):
    """The result was complete; what goes wrong afterwards stands in the log."""
    run = connection.start("r.1", "async.left", {"how": how})
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["result"], 0)
    assert words in node.log("r.1").read_text()


@pytest.mark.parametrize("how", ["cleans", "fails", "hangs"])
def test_what_is_left_on_the_loop_does_not_change_a_stop(connection, how):
    """Neither by failing nor by staying."""
    stop(connection, begin(connection, "async.stopped_with_others", {"how": how}))


def test_an_interruptible_task_goes_on_cleaning_up_after_sigterm(connection, node):
    """It was cancelled by the stop; the signal neither ends it nor cancels it again."""
    gate = node.root / "gate"
    run = begin(connection, "async.interruptible", {"gate": str(gate)})
    run.down("stop")
    run.wait_for("stopping")
    os.killpg(run.pid, signal.SIGTERM)
    run.wait_for("checkpoint")
    gate.touch()
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["stopping"], 0)
    assert node.log("r.1").read_text() == "cancelled\ncleaned\n"


def test_sigterm_cancels_an_interruptible_task_that_has_heard_nothing(connection, node):
    """Its loop was held up; the handler hears the stop, and the next await is cancelled."""
    run = begin(connection, "async.blocked")
    number = run.down("stop", wake=False)
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait_for("stopping")["answer"] == number
    assert end(connection, run)[1]["code"] == 0
    assert node.log("r.1").read_text() == "done with the call\n"


@pytest.mark.parametrize("name", ["async.wait", "async.interruptible"])
def test_sigterm_from_outside_is_its_default_action(connection, name):
    """Nobody asked chong for a stop."""
    run = begin(connection, name, {"gate": "/none"} if name == "async.interruptible" else {})
    os.kill(run.pid, signal.SIGTERM)
    assert connection.release("r.1")["signal"] == signal.SIGTERM


def test_a_fork_that_comes_back_says_nothing(connection):
    """Only the worker speaks for the run."""
    run = connection.start("r.1", "async.twin")
    kinds, exit_ = end(connection, run)
    assert (kinds, exit_["code"]) == (["result"], 0)
    assert run.last("result")["value"] == "parent"


def test_a_fork_on_the_same_loop_takes_no_frame(connection):
    """The stop reaches the worker, and the fork ends with its group."""
    run = begin(connection, "async.lasting_twin")
    twin = int(run.last("checkpoint")["message"])
    assert is_alive(twin)
    stop(connection, run)
    wait_until(lambda: not is_alive(twin), "the twin's end")


def test_a_channel_that_nobody_holds_costs_nothing(connection):
    """Its end can be read for ever; the loop must not spin on it."""
    run = begin(connection, "async.wait")
    run.socket.shutdown(socket.SHUT_RDWR)
    process = psutil.Process(run.pid)
    connection.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        connection.next()
    before = process.cpu_times().user
    with pytest.raises(TimeoutError):
        connection.next()
    assert process.cpu_times().user - before <= 0.02
