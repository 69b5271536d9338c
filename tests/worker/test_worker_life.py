"""One run from its fork to its release, and the verdicts that show on the wire."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from worker_bench import HERE


def test_frames_come_in_order_and_the_exit_follows(connection):
    """A frame's number is its event's id: one that is missing or twice there would be lost or stored twice."""
    run = connection.spawn("r.1")
    assert run.next()["kind"] == "ready"
    run.go("sample.pages", {"since": "May"})
    run.finish()
    assert run.kinds()[:2] == ["ready", "started"]
    assert run.kinds()[-1] == "result"
    assert [frame["n"] for frame in run.frames] == list(range(1, len(run.frames) + 1))
    assert run.last("result")["value"] == {"pages": 2, "since": "May", "key": "acme"}
    told = connection.release("r.1")
    assert time.time() - 60 < told.pop("at") <= time.time()
    assert told.pop("cpu_seconds") > 0
    assert told.pop("max_rss_bytes") > 1 << 20
    assert told == {"op": "exited", "run": "r.1", "code": 0, "signal": None, "oom": False}


def test_the_last_progress_leaves_before_the_result(connection):
    """Most reports are left out on the way, but nobody should see a finished task stand at 48 of 50."""
    run = connection.start("r.1", "sample.pages", {"count": 50})
    run.finish()
    assert run.last("checkpoint") | {"n": 0, "at": 0} == {
        "kind": "checkpoint",
        "n": 0,
        "at": 0,
        "done": 50,
        "total": 50,
        "message": "page 50",
    }
    assert run.kinds().count("checkpoint") < 10


def test_a_function_without_parameters_gets_no_context(connection):
    """It is called as it was written, and its value is a result like any other."""
    run = connection.start("r.1", "sample.bare")
    assert run.wait_for("result")["value"] == "no context"


def test_a_large_result_goes_through_a_file(connection):
    """A frame has an upper bound; the file is whole before the frame names it."""
    run = connection.start("r.1", "sample.value", {"what": "big"})
    frame = run.wait_for("result")
    assert frame | {"n": 0, "at": 0} == {"kind": "result", "n": 0, "at": 0, "file": "result.json", "bytes": 100_002}
    assert json.loads((run.run_dir / "result.json").read_bytes()) == "x" * 100_000


def test_parameters_and_the_last_checkpoint_may_come_in_files(connection):
    """The task sees the same values, whichever way they came."""
    run = connection.spawn("r.1")
    run.run_dir.mkdir(parents=True)
    (run.run_dir / "params.json").write_text('{"size": 3}')
    (run.run_dir / "last.json").write_text('{"page": 7}')
    run.go("sample.state", params_file="params.json", last_checkpoint_file=str(run.run_dir / "last.json"))
    assert run.wait_for("result")["value"] == {"page": 7}
    assert run.last("checkpoint")["state"] == {"text": "xxx"}


def test_a_large_state_goes_through_a_file(connection):
    """Under a name of its own, so that a later one does not overwrite what is still to be read."""
    run = connection.start("r.1", "sample.state", {"size": 100_000})
    run.wait_for("result")
    frame = run.last("checkpoint")
    assert (frame["state_file"], frame["state_bytes"]) == ("state-1.json", 100_011)
    assert json.loads((run.run_dir / "state-1.json").read_bytes()) == {"text": "x" * 100_000}


@pytest.mark.parametrize(
    ("how", "cause", "words"),
    [
        ("plain", "ValueError", "that was wrong"),
        ("exit 0", "SystemExit", "0"),
        ("exit text", "SystemExit", "message"),
        ("keyboard", "KeyboardInterrupt", ""),
        ("stopped unasked", "chong.worker.TaskStopped", "nobody asked"),
        ("hostile", "sample_tasks.HostileError", "(its text could not be formed)"),
        ("endless", "sample_tasks.EndlessError", "(its text could not be formed)"),
        ("stubborn", "sample_tasks.StubbornError", "(its text could not be formed)"),
        ("chain", "ValueError", "4999"),
        ("endless chain", "sample_tasks.EndlessChainError", ""),
        ("recursion", "RecursionError", "maximum recursion depth exceeded"),
        ("state", "chong.worker.result.ResultInvalid", "state: expected a JSON value, got set"),
    ],
)
def test_whatever_leaves_the_task_is_a_failure(connection, how, cause, words):
    """Even an exit with 0 or an error without a text has a cause, and a traceback that every store takes."""
    run = connection.start("r.1", "sample.fail", {"how": how})
    failure = run.wait_for("failure")
    failure = failure.get("failure") or json.loads((run.run_dir / failure["file"]).read_bytes())
    assert (failure["kind"], failure["cause"]) == ("exception", cause)
    assert words in failure["message"]
    assert len(failure["traceback"].encode()) <= 64 * 1024
    assert connection.release("r.1")["code"] == 1


def test_a_huge_hostile_text_is_cut_to_what_every_store_takes(connection):
    """A failure that cannot be stored would be one that nobody hears of."""
    run = connection.start("r.1", "sample.fail", {"how": "huge"})
    failure = run.wait_for("failure")
    failure = failure.get("failure") or json.loads((run.run_dir / failure["file"]).read_bytes())
    assert len(failure["message"].encode()) <= 500
    assert "\0" not in failure["message"] + failure["traceback"]


def test_the_traceback_begins_in_the_task_and_stands_in_the_log(connection, node):
    """Its reader wants to see their own code first, not chong's."""
    run = connection.start("r.1", "sample.fail", {"how": "plain"})
    text = run.wait_for("failure")["failure"]["traceback"]
    connection.release("r.1")
    assert text.splitlines()[1].strip().startswith(f'File "{HERE}/sample_tasks.py"')
    assert text in node.log("r.1").read_text()


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("nan", "result_invalid", 'result["a"][1]: expected a finite number, got nan'),
        ("set", "result_invalid", "result: expected a JSON value, got set"),
        ("cycle", "result_invalid", "expected at most 100 levels, got more"),
        ("surrogate", "result_invalid", "result: expected text, got a lone surrogate"),
        ("too large", "result_too_large", "result: expected at most 1048576 bytes of JSON"),
    ],
)
def test_a_result_that_not_every_store_takes_is_a_failure(connection, what, kind, words):
    """Found in the worker, which can name the very place, and the same with every backend."""
    run = connection.start("r.1", "sample.value", {"what": what})
    failure = run.wait_for("failure")["failure"]
    assert failure["kind"] == kind
    assert words in failure["message"]


@pytest.mark.parametrize(
    ("how", "code", "number"),
    [
        ("_exit 0", 0, None),
        ("_exit 7", 7, None),
        ("segfault", None, signal.SIGSEGV),
        ("abort", None, signal.SIGABRT),
        ("alarm", None, signal.SIGALRM),
    ],
)
def test_a_crash_shows_as_its_status_and_no_verdict_frame(connection, how, code, number):
    """A worker that died said nothing of it, so only the kernel's word counts."""
    run = connection.start("r.1", "sample.fail", {"how": how})
    assert run.finish() == ["ready", "started"]
    end = connection.release("r.1")
    assert (end["code"], end["signal"]) == (code, number)


def test_a_segfault_leaves_its_stack_in_the_log(connection, node):
    """Without it nobody would know in which line a C extension died."""
    connection.start("r.1", "sample.fail", {"how": "segfault"})
    connection.release("r.1")
    text = node.log("r.1").read_text()
    assert "Fatal Python error: Segmentation fault" in text
    assert "sample_tasks.py" in text


def test_a_crash_after_the_result_leaves_the_result(connection):
    """Both reach the supervisor: the work was done, and its teardown was not."""
    run = connection.start("r.1", "sample.after")
    assert run.finish() == ["ready", "started", "result"]
    assert connection.release("r.1")["signal"] == signal.SIGSEGV


def test_an_unknown_task_is_an_import_error(connection):
    """The code lacks it, which another attempt with this generation would not change."""
    run = connection.start("r.1", "sample.unknown")
    failure = run.wait_for("failure")["failure"]
    assert failure["kind"] == "import_error"
    assert "sample.unknown" in failure["message"]


@pytest.mark.parametrize("params", [{"cuont": 1}, {"ctx": 1}, [1]])
def test_parameters_that_do_not_bind_name_the_signature(connection, params):
    """Told before the task's first line, with what it would have taken."""
    run = connection.start("r.1", "sample.pages", params)
    failure = run.wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "TypeError")
    assert "sample.pages" in failure["message"]
    if isinstance(params, dict):
        assert "since: str | None = None" in failure["message"]


@pytest.mark.parametrize("params", [{"count": "secret"}, {"since": ["secret"]}])
def test_parameters_that_are_not_what_their_annotations_say_fail_the_run(connection, params):
    """Whoever hands them over; and what they were goes no further."""
    failure = connection.start("r.1", "sample.pages", params).wait_for("failure")["failure"]
    assert (failure["kind"], failure["cause"]) == ("exception", "TypeError")
    assert re.match(r"task 'sample.pages': expected (int|str \| null) at (count|since), got ", failure["message"])
    assert "secret" not in json.dumps(failure)


LOOK = """
import sys
from chong.worker import TaskContext, task

@task("{name}.look")
def look(ctx: TaskContext, a{annotation}=1):
    return "msgspec" in sys.modules
"""


@pytest.mark.parametrize(("annotation", "is_loaded"), [("", False), (": int", True)])
def test_only_annotations_cost_a_worker_anything(node, annotation, is_loaded):
    """The forkserver has loaded what they need, before it forked."""
    (node.root / "looks.py").write_text(LOOK.format(name="looks", annotation=annotation))
    connection = node.start(("looks",)).attach()
    assert ("/msgspec/" in Path(f"/proc/{node.pid}/maps").read_text()) == is_loaded
    assert connection.start("r.1", "looks.look").wait_for("result")["value"] == is_loaded


def test_junk_in_go_fails_that_run_only(connection):
    """The forkserver never reads it, so the next run starts as if nothing had been."""
    run = connection.spawn("r.1")
    run.down("go", task="nothing", run_dir=str(run.run_dir))
    assert run.wait_for("failure")["failure"]["kind"] == "protocol"
    assert connection.start("r.2", "sample.quick").finish()[-1] == "result"


def test_a_worker_starts_pristine(connection):
    """Nothing of forkserver, supervisor or imported module leaks in: a task meets what any program meets."""
    run = connection.spawn("r.1", title="chong: worker sample.look acme")
    run.go("sample.look")
    seen = run.wait_for("result")["value"]
    assert seen == {
        "fds": [0, 1, 2, 3, 4],
        "masks": {"SigBlk": [], "SigIgn": [signal.SIGPIPE, signal.SIGXFSZ]},  # as in any Python
        "handled": [signal.SIGURG],
        "stdin": "/dev/null",
        "stdin text": "",
        "oom": 500,
        "core": [0, 0],
        "session": True,
        "marker": "r.1",
        "title": "chong: worker sample.look acme",
        "threads": 1,
        "params": {},
        "facts": ["0190ab", "sample.look", "acme", 3, 1, None, None],
    }


def test_print_and_log_go_to_the_runs_log(connection, node):
    """In one file, which only its owner may read, with the task's ids in each structured line."""
    connection.start("r.1", "sample.log").wait_for("result")
    connection.release("r.1")
    plain, structured, bound = node.log("r.1").read_text().splitlines()
    assert plain == "plain words"
    facts = json.loads(structured)
    assert facts.pop("timestamp").endswith("Z")
    ids = {"task": "0190ab", "name": "sample.log", "key": "acme", "attempt": 1}
    assert facts == {"event": "structured", "page": 1, "level": "info", **ids}
    assert json.loads(bound)["more"] == 2
    assert node.log("r.1").stat().st_mode & 0o777 == 0o600


def test_a_fork_of_the_task_does_not_speak_for_the_run(connection):
    """Its frames would use our numbers twice, and its result would beat the real one."""
    run = connection.start("r.1", "sample.lost_child")
    assert run.finish() == ["ready", "started", "result"]
    assert run.last("result")["value"] == "parent"


def test_a_hundred_thousand_checkpoints_are_few_frames_and_do_not_block(connection):
    """Nobody reads meanwhile, and the newest of all that was reported arrives."""
    run = connection.start("r.1", "sample.flood")
    end = connection.wait_for("exited", "r.1")
    run.finish()
    assert end["code"] == 0
    assert run.kinds().count("checkpoint") <= 20 * (run.frames[-1]["at"] - run.frames[1]["at"]) + 5
    assert run.last("checkpoint")["state"] == {"number": 2999}


def test_a_checkpoint_without_news_only_looks_at_the_clock(connection):
    """Otherwise nobody would put one into an inner loop; reads and frames come with the heartbeat alone."""
    run = connection.start("r.1", "sample.idle")
    end = run.wait_for("result")
    calls, frames = end["value"], run.kinds().count("checkpoint")
    assert frames <= end["at"] - run.last("started")["at"] + 2
    assert calls.pop("checkpoint") == 100_000
    assert 100_000 <= calls.pop("monotonic") <= 100_000 + 4 * frames
    assert max(calls["read"], calls["_receive"], calls.get("has_room", 0), calls.get("_send", 0)) <= 4 * frames


def test_exit_handlers_of_the_module_are_not_the_workers(node, connection):
    """The first worker to end would tear down for all what the module made at import; a task's own handlers run."""
    run = connection.start("r.1", "sample.exit_handler")
    run.finish()
    log = node.log("r.1").read_text()
    assert "the task's exit handler ran" in log
    assert "the task's finalizer ran" in log
    assert "the module's" not in log
