"""Tasks replace functions that chong needs, for tests or by a library: the end of their run is told all the same."""

import json
import sys
import time

import pytest


@pytest.fixture
def connection(node):
    return node.start(("patching_tasks",)).attach()


@pytest.mark.parametrize("how", ["short", "long"])
def test_a_result_is_told_whatever_the_task_has_replaced(connection, node, how):
    """In a frame or in a file; what it had printed stands in the log."""
    run = connection.start("r", "patching.ends", {"how": how})
    frame = run.wait_for("result")
    value = frame["value"] if how == "short" else json.loads((run.run_dir / frame["file"]).read_bytes())
    assert value in (how, "x" * 100_000)
    assert connection.release("r")["code"] == 0
    assert node.log("r").read_text() == "before"


def test_a_failure_is_told_whatever_the_task_has_replaced(connection, node):
    """Its traceback stands in the log, also when the task has put another stream in the place of standard error."""
    run = connection.start("r", "patching.ends", {"how": "raise"})
    failure = run.wait_for("failure")["failure"]
    assert [failure[key] for key in ("kind", "cause", "message")] == ["exception", "ValueError", "as it should"]
    assert connection.release("r")["code"] == 1
    assert failure["traceback"] in node.log("r").read_text()
    assert "patching_tasks.py" in failure["traceback"]


def test_states_are_told_whatever_the_task_has_replaced(connection):
    """They are put aside and written to files of the run; the last one arrives."""
    run = connection.start("r", "patching.states")
    run.wait_for("result")
    name = [frame["state_file"] for frame in run.frames if "state_file" in frame][-1]
    assert json.loads((run.run_dir / name).read_bytes()) == [2] * 100_000
    assert not (run.run_dir / "held-back.json").exists()
    assert connection.release("r")["code"] == 0


def test_a_stop_arrives_whatever_the_task_has_replaced(connection):
    """It is acknowledged, and ends the task at its next checkpoint."""
    run = connection.start("r", "patching.late")
    run.wait_for("checkpoint")
    number = run.down("stop")
    run.finish()
    assert run.last("stopping")["answer"] == number
    assert connection.release("r")["code"] == 0


def test_time_that_stands_still_holds_nothing_up(connection):
    """A sleep ends, checkpoints leave, and frames say when they were sent."""
    began = time.time()
    run = connection.start("r", "patching.timeless", {"seconds": 0.1})
    assert run.wait_for("result")["value"] == "slept"
    assert [frame["done"] for frame in run.frames if frame["kind"] == "checkpoint" and frame["done"] is not None]
    assert all(began - 60 < frame["at"] <= time.time() + 1 for frame in run.frames)


def test_a_stop_arrives_while_time_stands_still(connection):
    """Out of a sleep that would last for an hour."""
    run = connection.start("r", "patching.timeless", {"seconds": 3600})
    run.wait_for("checkpoint")
    number = run.down("stop")
    run.finish()
    assert run.last("stopping")["answer"] == number


def test_a_module_that_stops_time_costs_no_other_task(node):
    """The forkserver's own waits go on, and so do those of the runs that are forked from it."""
    (node.root / "stops.py").write_text("import patching_tasks\npatching_tasks.stop_time()\n")
    connection = node.start(("patching_tasks", "stops")).attach()
    began = time.time()
    run = connection.start("r", "patching.timeless", {"seconds": 0.1})
    assert run.wait_for("result")["value"] == "slept"
    assert began - 60 < connection.release("r")["at"] <= time.time() + 1


def test_a_module_that_replaces_the_process_id_costs_no_task(node):
    """The leash is armed for the run's own group, not for the one of somebody else."""
    text = """
import fcntl, os, struct
from chong.worker import task
os.getpid = lambda: 1
@task("owner")
def owner(ctx):
    F_GETOWN_EX = 16
    return struct.unpack("ii", fcntl.fcntl(4, F_GETOWN_EX, struct.pack("ii", 0, 0)))
"""
    (node.root / "stops.py").write_text(text)
    run = node.start(("stops",)).attach().start("r", "owner")
    of_group = 2
    assert run.wait_for("result")["value"] == [of_group, run.pid]


SPOILS = ("json", "builtins", "no builtins", "tracer", "alarm", "stack", "streams", "warnings")


@pytest.mark.parametrize("what", SPOILS)
def test_a_result_is_told_whatever_the_task_has_spoilt(connection, what):
    """Methods of classes, builtins, tracers, timers, the stack's limit: all that stands between it and its end."""
    run = connection.start("r", "patching.spoils", {"what": what, "how": "return"})
    assert run.wait_for("result")["value"] == {"x": ["é", 1.5, None, True]}
    assert connection.release("r")["code"] == 0


@pytest.mark.parametrize("what", SPOILS)
def test_an_exception_is_told_whatever_the_task_has_spoilt(connection, node, what):
    """As what it is, and in the log."""
    run = connection.start("r", "patching.spoils", {"what": what, "how": "raise"})
    failure = run.wait_for("failure")["failure"]
    assert [failure[key] for key in ("kind", "cause", "message")] == ["exception", "ValueError", "as it should"]
    assert connection.release("r")["code"] == 1
    assert "ValueError" in node.log("r").read_text()


def test_a_profiler_that_raises_is_an_exception_of_the_task(connection):
    """It spoils the task's own return, and not the telling of it; no frame of chong's is shown."""
    run = connection.start("r", "patching.profiled")
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "KeyboardInterrupt")
    assert "patching_tasks.py" in failure["traceback"]
    assert "worker/run.py" not in failure["traceback"]
    assert connection.release("r")["code"] == 1


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("silent", "patching_tasks.SilentError"),
        ("hidden", "m.Concealed"),
        ("word", "m.Worded"),
        ("rude", "Placed"),
        ("untraced", "patching_tasks.UntracedError"),
    ],
)
def test_an_exception_is_told_whatever_it_does_when_it_is_looked_at(connection, node, what, cause):
    """Its class by name, and its place in the task's code; the log has both."""
    run = connection.start("r", "patching.raises", {"what": what})
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", cause)
    assert connection.release("r")["code"] == 1
    for text in (failure["traceback"], node.log("r").read_text()):
        assert "patching_tasks.py" in text
        assert "worker/run.py" not in text


AROUND = ["PY_START", "PY_UNWIND", "CALL", "C_RETURN", "JUMP", "BRANCH", "RAISE", "EXCEPTION_HANDLED"]
WITHIN = [(["PY_RETURN"], "KeyboardInterrupt")] + [
    (kinds, "chong.worker.EndLostError") for kinds in (["LINE"], ["INSTRUCTION"], [])
]
needs_monitoring = pytest.mark.skipif(
    not hasattr(sys, "monitoring"),
    reason="sys.monitoring came with Python 3.12; before it no task can do this, so the gate does not ask for it",
)


@needs_monitoring
@pytest.mark.parametrize("kind", AROUND)
def test_a_result_is_told_whatever_monitoring_raises_around_it(connection, kind):
    """Callbacks that raise for ever, and are not called any more when the task has returned."""
    run = connection.start("r", "patching.monitored", {"kinds": [kind]})
    assert run.wait_for("result")["value"] == "end"
    assert connection.release("r")["code"] == 0


@needs_monitoring
@pytest.mark.parametrize(("kinds", "cause"), WITHIN)
def test_monitoring_that_raises_in_the_task_itself_is_its_failure(connection, node, kinds, cause):
    """In each of its lines and in its return; the log shows from where."""
    run = connection.start("r", "patching.monitored", {"kinds": kinds})
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", cause)
    assert connection.release("r")["code"] == 1
    assert "patching_tasks.py" in node.log("r").read_text()


def test_a_result_is_told_past_an_audit_hook_that_refuses_everything(connection):
    """Nothing of chong's waits for its consent."""
    run = connection.start("r", "patching.audited", {"size": 3})
    assert run.wait_for("result")["value"] == "xxx"
    assert connection.release("r")["code"] == 0


def test_an_audit_hook_that_keeps_a_result_from_its_file_is_the_tasks_failure(connection):
    """A large result needs one; what the hook raised for it is told."""
    run = connection.start("r", "patching.audited", {"size": 100_000})
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "KeyboardInterrupt")
    assert connection.release("r")["code"] == 1
