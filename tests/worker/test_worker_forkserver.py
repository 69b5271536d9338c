"""The forkserver: catalogue, spawns, ends, and what may be thrown at it."""

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from needs import unavailable
from worker_bench import is_alive, is_readable, kill, start_holder, wait_until

from chong.worker.options import Options


def test_hello_names_generation_catalogue_and_the_terms_before(node):
    """From these a new supervisor decides whether it may count on this forkserver, and gets its leash."""
    node.start()
    first = node.connect()
    assert first.hello == {
        "op": "hello",
        "protocol": 1,
        "generation": 3,
        "pid": node.pid,
        "served": [],
        "catalogue": str(node.catalogue_path),
    }
    assert stat.S_ISFIFO(os.fstat(first.leash).st_mode)
    assert first.attach("term-a") == []
    first.spawn("r.1")
    first.close()
    assert node.connect().hello["served"] == ["term-a"]


def test_a_term_that_cannot_know_all_its_runs_from_here_is_not_named(node):
    """It had lost another forkserver, or has its new runs elsewhere."""
    node.start()
    first = node.connect()
    first.attach(None)
    first.close()
    assert node.connect().hello["served"] == []


SAMPLES = Path(__file__).with_name("sample_tasks.py").read_text().splitlines()


def test_the_catalogue_shows_options_and_parameters(connection, node):
    """The supervisor never imports user code: all that it knows of a task stands here."""
    tasks = {entry["name"]: entry for entry in node.catalogue()["tasks"]}
    assert tasks["sample.pages"] == {
        "name": "sample.pages",
        "module": "sample_tasks",
        "function": "pages",
        "line": next(number for number, line in enumerate(SAMPLES, 1) if line.startswith('@task("sample.pages"')),
        "exec": False,
        "parameters": "(since: str | None = None, count: int = 2)",
        "options": json.loads(json.dumps(asdict(Options(timeout=600.0, retries=3, tags=("io",))))),
        "accepts": {"required": [], "optional": ["since", "count"], "any": False},
        "types": {
            "shapes": {"since": {"is": "union", "of": [{"is": "str"}, {"is": "null"}]}, "count": {"is": "int"}},
            "rest": None,
            "classes": [],
            "unchecked": [],
        },
        "fault": "",
    }
    assert node.catalogue()["errors"] == []


def test_a_bad_module_costs_only_its_own_tasks(node):
    """Each error is told with its traceback, and every other module's tasks can still be run."""
    modules = {
        "broken_import": "import no_such_module",
        "broken_syntax": "def",
        "broken_exit": "print('to its own output'); raise SystemExit(3)",
        "broken_text": "class E(Exception):\n def __str__(self): raise E\nraise E",
        "second": "from chong.worker import task\n@task('sample.quick')\ndef other(ctx): return 2",
    }
    for name, text in modules.items():
        (node.root / f"{name}.py").write_text(text)
    connection = node.start((*modules, "sample_tasks", "no.such.place")).attach()
    errors = {entry["module"]: entry for entry in node.catalogue()["errors"]}
    assert set(errors) == {
        "broken_import",
        "broken_syntax",
        "broken_exit",
        "broken_text",
        "sample_tasks",
        "no.such.place",
    }
    assert (
        errors["broken_import"]["error"] == "ModuleNotFoundError: No module named 'no_such_module' (broken_import.py:1)"
    )
    assert "broken_import.py" in errors["broken_import"]["traceback"]
    assert errors["broken_text"]["error"] == "broken_text.E: (its text could not be formed) (broken_text.py:3)"
    assert errors["no.such.place"]["error"] == "ModuleNotFoundError: No module named 'no'"
    assert (errors["sample_tasks"]["task"], errors["broken_import"]["task"]) == ("sample.quick", None)
    assert errors["sample_tasks"]["error"].endswith("that of second:2 (other) stays")
    assert "to its own output" in node.output()
    assert connection.start("r.1", "sample.quick").wait_for("result")["value"] == 2


def test_a_second_forkserver_of_the_generation_is_refused_by_the_lock(node):
    """Two would each know half of the runs; the lock ends with its process, however that ends."""
    node.start().connect()
    words = ["flock", "--nonblock", str(node.root / "lock"), "true"]
    assert subprocess.run(words, check=False).returncode == 1
    node.kill()
    assert subprocess.run(words, check=False).returncode == 0


def test_a_repeated_spawn_is_reported_again_and_forks_once(connection):
    """A supervisor that lost the answer may ask again, even after the end, without a second run."""
    run = connection.spawn("r.1")
    connection.reports.clear()
    assert connection.spawn("r.1").pid == run.pid
    run.go("sample.quick")
    connection.wait_for("exited", "r.1")
    connection.reports.clear()
    assert connection.spawn("r.1").pid == run.pid
    assert connection.wait_for("exited", "r.1")["code"] == 0
    assert run.finish().count("started") == 1


def test_twenty_spawns_at_once_all_run(connection):
    """Orders queue up: none is lost or mixed up with another."""
    runs = [f"r{number}.1" for number in range(20)]
    for run in runs:
        connection.order("spawn", run=run, task="", log=str(connection._node.log(run)), title="t", memo=None)
    for run in runs:
        connection.wait_for("spawned", run)
        connection.runs[run].go("sample.pages")
    for run in runs:
        assert connection.release(run)["code"] == 0
        assert connection.runs[run].finish()[-1] == "result"


@pytest.mark.parametrize(
    "order",
    [
        {"run": "../r", "log": "/dev/null", "title": "t"},
        {"run": "r", "log": "/no/such/place", "title": "t"},
        {"run": "r", "log": "/dev/null", "title": 7},
        {"run": "r", "log": "/dev/null", "title": "t\0"},
        {"run": "r", "log": "/dev/null\0", "title": "t"},
        {"run": ["r"], "log": "/dev/null", "title": "t"},
        {"run": "r", "log": "/dev/null", "title": "t", "memo": "x" * 64_700},
        {"run": "r", "log": "/dev/null", "title": "t", "memo": "\ud800"},
    ],
)
def test_a_spawn_that_cannot_be_is_refused_with_a_reason(connection, order):
    """The run can be failed by name, and the forkserver goes on with the next."""
    connection.order("spawn", **order)
    refusal = connection.wait_for("refused")
    assert refusal["run"] == order["run"]
    assert refusal["reason"]
    assert connection.start("r.2", "sample.quick").finish()[-1] == "result"


def test_junk_does_not_end_a_forkserver(connection, node):
    """Its end would be that of every worker's parent, so it drops what it cannot read and says so."""
    orders = (b"{}", b"[]", b'{"op":["spawn"]}', b'{"op":"release","run":{}}', b'{"op":"list"}')
    deep = b'{"op":' + b"[" * 900 + b"]" * 900 + b"}"
    deep_spawn = (
        b'{"op":"spawn","run":"d","task":"","log":"/dev/null","title":"t","memo":' + b"[" * 960 + b"]" * 960 + b"}"
    )
    for junk in (b"\xff", b"x" * 70_000, deep, deep_spawn, *orders):
        connection.socket.send(junk)
    connection.order("release", run="unknown")
    run = connection.spawn("r.1")
    connection.order("release", run="r.1")  # it lives: not to be forgotten
    run.go("sample.quick")
    assert connection.release("r.1")["code"] == 0
    assert "expected a run that has ended, got 'r.1'" in node.output()


def test_a_worker_that_sends_junk_harms_nobody(node):
    """Its unread frames are kept for the next term; what is no JSON object keeps its place, so that it counts there."""
    node.start(hold=0.2, ladder=0.2)
    kill(start_holder(node, "sample.junk"))
    assert node.wait_end() == 0
    frames = json.loads((node.runs / "r0" / "remains.json").read_text())["frames"]
    texts = ["\\xff\0", "", "[]", "x" * 40]
    assert [frame for frame in frames if isinstance(frame, str)] == texts
    kinds = [frame if isinstance(frame, str) else frame.get("kind") for frame in frames]
    assert kinds == ["ready", "started", *texts[:3], None, texts[3], "result"]


def test_a_supervisor_that_does_not_read_blocks_nothing_and_loses_nothing(connection, node):
    """The reports wait for their reader, and orders are taken meanwhile."""
    runs = [f"r{number}.1" for number in range(150)]
    memo = "x" * 100
    for run in runs:
        connection.order("spawn", run=run, task="", log=str(node.log(run)), title="t", memo=memo)
    for run in runs:
        connection.wait_for("spawned", run)
    for run in runs:
        connection.runs[run].socket.shutdown(2)
    wait_until(lambda: all(is_readable(connection.runs[run].pidfd) for run in runs), "the ends")
    for _ in range(20):
        connection.order("attach", term="again")  # 150 lines each, which nobody reads
    connection.order("spawn", run="late", task="", log=str(node.log("late")), title="t", memo=None)
    assert connection.spawn("late").wait_for("ready")
    ends = {report["run"] for report in connection.reports if report["op"] == "exited"}
    listed = {report["run"] for report in connection.reports if report["op"] == "worker" and report["exited"]}
    assert ends | listed >= set(runs)


@pytest.mark.parametrize("kind", ["group", "session", "silent", "forked"])
@pytest.mark.parametrize("linger", [False, True])
def test_grandchildren_end_with_the_run_before_its_exit_is_told(connection, kind, linger):
    """A retry that starts on the exit must not meet its predecessor's children; another run's are left alone."""
    run = connection.start("r.1", "sample.family", {"kind": kind, "linger": linger})
    other = connection.start("r.2", "sample.family", {"kind": kind, "linger": True})
    grandchild = int(run.wait_for("checkpoint")["message"])
    bystander = int(other.wait_for("checkpoint")["message"])
    if linger:
        assert is_alive(grandchild)
        os.kill(run.pid, signal.SIGKILL)
    connection.wait_for("exited", "r.1")
    assert not is_alive(grandchild)
    assert is_alive(bystander)
    os.kill(other.pid, signal.SIGKILL)
    connection.wait_for("exited", "r.2")


@pytest.mark.parametrize("kind", ["group", "session", "silent", "forked"])
def test_a_stray_that_was_killed_is_told_in_the_log_of_its_run(connection, node, kind):
    """Whoever started a daemon would look for it in vain; what is left in the group is no stray."""
    run = connection.start("r.1", "sample.family", {"kind": kind})
    pid = int(run.wait_for("checkpoint")["message"])
    connection.wait_for("exited", "r.1")
    told = re.fullmatch(r"chong: killed process (\d+) \((.+)\), which was left behind\n", node.log("r.1").read_text())
    assert (kind == "group") == (told is None)
    if told is not None:
        assert int(told[1]) == pid
        assert kind == "forked" or told[2] == "sleep"


def test_so_many_strays_are_told_and_each_on_a_line_of_its_own(connection, node):
    """The log is the task's; what it had begun to write is left as it is."""
    run = connection.start("r.1", "sample.strays", {"count": 12})
    run.finish()
    connection.wait_for("exited", "r.1")
    first, *others = node.log("r.1").read_text().splitlines()
    assert first == "half a line"
    assert len(others) == 10
    assert all(line.startswith("chong: killed process ") for line in others)


def test_an_ended_run_stays_a_zombie_until_its_release(connection):
    """Its pid cannot name another process while somebody may still signal it."""
    run = connection.start("r.1", "sample.quick")
    connection.wait_for("exited", "r.1")
    os.kill(run.pid, 0)
    connection.order("release", run="r.1")
    wait_until(lambda: not _exists(run.pid), "the reaping")


def test_a_retired_generation_ends_with_its_last_run(connection, node):
    """Old code takes no new work, yet nothing that runs is cut short."""
    run = connection.start("r.1", "sample.sleep")
    connection.order("retire")
    connection.order("spawn", run="r.2", task="", log="/dev/null", title="t", memo=None)
    assert "retired" in connection.wait_for("refused", "r.2")["reason"]
    run.down("stop")
    connection.release("r.1")
    assert node.wait_end() == 0


def test_without_runs_it_waits_for_the_next_supervisor_all_the_same(node):
    """Somebody has to be able to say what was never forked; nobody comes, and it ends after its hold time."""
    connection = node.start(hold=0.5).attach()
    connection.close()
    again = node.connect()
    assert again.attach("term-2") == []
    again.close()
    assert node.wait_end() == 0


def test_nobody_ever_connects(node):
    """A supervisor that died before its first word leaves no process behind."""
    node.start(hold=0.2)
    assert node.wait_end() == 0


def test_ctrl_c_does_not_reach_it(connection, node):
    """In a session of its own, so that the supervisor alone decides what a key in its terminal ends."""
    os.kill(node.pid, signal.SIGINT)
    assert connection.start("r.1", "sample.quick").finish()[-1] == "result"
    assert os.getsid(node.pid) == node.pid


def test_titles_and_room_for_many(connection, node):
    """People find it in `ps`, and the soft limit of files is not what bounds its runs."""
    assert Path(f"/proc/{node.pid}/cmdline").read_text().rstrip("\0") == "chong: forkserver g3"
    limits = Path(f"/proc/{node.pid}/limits").read_text().splitlines()
    soft, hard = next(line.split()[3:5] for line in limits if line.startswith("Max open files"))
    assert soft == hard


def test_a_stranger_in_the_backlog_waits_and_is_passed_over(node):
    """Whoever connects and says nothing must not keep the next supervisor out."""
    connection = node.start(hold=1.0).attach()
    connection.spawn("r.1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(str(node.path))
        successor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.closing(successor):
            successor.connect(str(node.path))
            assert not is_readable(silent.fileno(), 0.1)
            connection.close()
            assert is_readable(successor.fileno(), 5)
            # Its turn, and not the end of the connection, which can be read as well.
            assert json.loads(successor.recv(1 << 17))["op"] == "hello"


def test_a_foreign_user_is_turned_away(node):
    """Even where the file's rights would let it in, nobody else may start programs as us."""
    if os.getuid() != 0:
        unavailable("needs root to become somebody else")
    node.start()
    node.root.chmod(0o755)
    wait_until(node.catalogue_path.exists, "the imports")
    node.path.chmod(0o777)
    script = (
        "import os,socket,sys\nos.setuid(65534)\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n"
        "s.connect(sys.argv[1])\nprint(s.recv(99))"
    )
    said = subprocess.run([sys.executable, "-c", script, str(node.path)], capture_output=True, check=False)
    assert said.stdout == b"b''\n"
    assert node.attach().start("r.1", "sample.quick").finish()[-1] == "result"


def _exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
