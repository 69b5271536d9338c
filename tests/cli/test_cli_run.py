"""`chong run`: one task in the foreground, and nothing left of it."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import Answer, clean_environment
from waiting import wait_until


class Foreground:
    """`chong run` in an empty directory, as a new user's first contact; at the end nothing of it may be left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        here = str(Path(__file__).parent)
        said = {
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": os.pathsep.join([here, str(root)]),
            "CHONG_TASKS": "dev_tasks",
        }
        said["PYTHONDONTWRITEBYTECODE"] = "1"
        self.environment = clean_environment(root / "none", said)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "chong.cli", "run", *args],
            env=self.environment, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *args: str) -> Answer:
        return ended(self.start(*args))

    def processes(self) -> list[str]:
        return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_ours(entry)]

    def _is_ours(self, entry: Path) -> bool:
        try:
            return str(self.temporary).encode() in (entry / "environ").read_bytes()
        except OSError:
            return False

    def check_gone(self) -> None:
        wait_until(lambda: not self.processes(), "end of all processes")
        assert list(self.temporary.iterdir()) == []
        assert [path.name for path in self.root.iterdir()] == ["tmp"]


def ended(process: subprocess.Popen[str]) -> Answer:
    out, err = process.communicate(timeout=60)
    return Answer(process.returncode, out, err)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Foreground]:
    made = Foreground(tmp_path)
    yield made
    made.check_gone()


def test_a_task_runs_with_its_output_and_its_result(place: Foreground):
    """Output first, then the result as JSON; remarks go to standard error."""
    answer = place.run("greet", "--key", "acme", "-p", "name=ann", "-p", "times=2")
    assert answer.code == 0
    output, result = answer.out[: answer.out.index("{")], answer.out[answer.out.index("{") :]
    assert output == "hello ann\nhello ann\n"
    assert json.loads(result) == {"name": "ann", "key": "acme", "attempt": 1}


def test_parameters_become_what_the_annotations_say(place: Foreground):
    """Classes of the module's own, too, which the command has never seen."""
    pages = ["--params", '{"pages": [{"start": 1}, {"start": 2, "end": 3}]}']
    answer = place.run("pages", *pages, "-p", "day=2026-12-01", "-p", "level=high", "-p", "wait=1h30m")
    assert json.loads(answer.out) == (
        "(datetime.date(2026, 12, 1), [Page(start=1, end=None), Page(start=2, end=3)], "
        "<Level.HIGH: 'high'>, datetime.timedelta(seconds=5400))"
    )


def test_what_a_class_of_the_tasks_refuses_is_a_failure_of_the_task(place: Foreground):
    """Only its own code could know; the task's message says where."""
    answer = place.run("pages", "-p", "day=2026-12-01", "-p", 'pages=[{"start": 2, "end": 1}]')
    assert answer.code == 1
    last = "chong: failed, exception TypeError: task 'pages': it ends before it starts at pages[0]\n"
    assert answer.err.endswith(last)


def test_json_is_the_whole_task_alone(place: Foreground):
    """The task's output does not get in its way."""
    answer = place.run("greet", "--params", '{"name": "bob"}', "--json")
    task = answer.json
    assert (task["status"], task["outcome"]["name"]) == ("succeeded", "bob")
    assert "hello bob\n" in answer.err


def test_a_failure_is_told_with_its_traceback(place: Foreground):
    """Kind, cause and message on the last line of the remarks."""
    answer = place.run("broken")
    assert answer.code == 1
    assert answer.err.endswith("chong: failed, exception ValueError: no such page\n")
    assert 'raise ValueError("no such page")' in answer.out


def test_retries_happen_as_they_are_defined(place: Foreground):
    """With their pauses, and a word about what is waited for."""
    answer = place.run("flaky")
    assert answer.code == 0
    assert "attempt 1 is over, the task is retrying, exception ValueError: not yet" in answer.err
    assert answer.out.startswith("attempt 1\n")
    assert answer.out.endswith("attempt 2\n2\n")


def test_no_breaker_holds_what_crashes(place: Foreground):
    """Nobody could release it here."""
    assert place.run("crashes").out.splitlines()[-1] == "7"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_asks_the_task_to_stop(place: Foreground, number: int):
    """Also the one of a terminal that goes away: its checkpoint ends it, with the code of an interruption."""
    process = place.start("waits")
    assert first_line(process).startswith("pid ")
    assert process.stderr is not None
    assert process.stderr.readline() == "chong: running, attempt 1 of 1\n"
    process.send_signal(number)
    answer = ended(process)
    assert answer.code == 130
    assert "asked the task to stop; once more kills it" in answer.err
    assert re.search(r"^chong: stopped, asked by \S+: Ctrl-C\n\Z", answer.err, re.MULTILINE)
    assert "chong: \n" not in answer.err


def test_a_second_ctrl_c_kills_it(place: Foreground):
    """Whatever its graces are."""
    process = place.start("deaf")
    pid = int(first_line(process).split()[1])
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    wait_until(lambda: "asked the task to stop" in process.stderr.readline(), "the first one heard")
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["gret"], 1, "did you mean 'greet'?"),
        (["greet", "-p", "nmae=ann"], 1, "an unknown 'nmae' (did you mean 'name'?)"),
        (
            ["greet", "-p", "times=many"],
            1,
            "task 'greet': expected int at times, got str; its parameters are (name: str",
        ),
        (["greet", "--params", "{"], 2, "expected a JSON object"),
        (["greet", "--key", "a\nb"], 2, "no control characters"),
    ],
)
def test_refusals_are_one_line(place: Foreground, args: list[str], code: int, said: str):
    """As those of submit."""
    answer = place.run(*args)
    assert (answer.code, answer.out, answer.err.count("\n")) == (code, "", 1)
    assert said in answer.err


def test_a_module_that_is_broken_is_named(place: Foreground):
    """With its error, beside the task that was not found for it."""
    answer = place.run("greet", "--tasks", "no_such_module")
    assert answer.code == 1
    assert "module no_such_module failed: ModuleNotFoundError" in answer.err


def test_an_unknown_task_is_told_with_what_was_loaded_here(place: Foreground):
    """And with each module that was not: `chong tasks` shows a node's, and there may be no node."""
    answer = place.run("zzz", "--tasks", "dev_tasks", "--tasks", "no_such_module")
    last = answer.err.splitlines()[-1]
    assert (answer.code, answer.out) == (1, "")
    assert last.startswith("chong: unknown task 'zzz'; module no_such_module failed: ModuleNotFoundError")
    assert "; chong run loads the installed modules and those of --tasks, which define " in last
    assert ", greet" in last
    assert "chong tasks" not in answer.err


def test_a_module_that_raises_is_told_with_its_traceback(place: Foreground):
    """The line is what its author needs, and nothing else has it once the command is over."""
    (place.root / "typo_tasks.py").write_text("x = 1\nprint(undefined)\n")
    answer = place.run("greet.typo", "--tasks", "typo_tasks")
    (place.root / "typo_tasks.py").unlink()
    assert answer.code == 1
    assert 'typo_tasks.py", line 2' in answer.err


def test_ctrl_c_while_modules_load_leaves_nothing(place: Foreground):
    """There is no task yet that could be asked."""
    slow = place.root / "tmp" / "slow_tasks.py"
    slow.write_text("import time\nopen(__file__ + '.begun', 'w').close()\ntime.sleep(60)\n")
    place.environment["PYTHONPATH"] += os.pathsep + str(slow.parent)
    process = place.start("greet", "--tasks", "slow_tasks")
    wait_until(lambda: Path(f"{slow}.begun").exists(), "the import")
    process.send_signal(signal.SIGINT)
    answer = ended(process)
    assert (answer.code, answer.out, answer.err) == (130, "", "")
    slow.unlink()
    Path(f"{slow}.begun").unlink()


def test_what_a_killed_run_has_left_goes_with_the_next_one(place: Foreground):
    """As soon as its forkserver is gone, and never what another one uses at the same time."""
    killed = place.start("waits")
    assert first_line(killed).startswith("pid ")
    killed.kill()
    ended(killed)
    (left,) = place.temporary.iterdir()
    wait_until(lambda: place.run("greet").code == 0 and not left.exists(), "the clearing")
    living = place.start("waits")
    assert first_line(living).startswith("pid ")
    (used,) = place.temporary.iterdir()
    assert place.run("greet").code == 0
    assert list(place.temporary.iterdir()) == [used]
    living.send_signal(signal.SIGINT)
    assert ended(living).code == 130


def test_what_a_forkserver_still_holds_is_left(place: Foreground):
    """The run was killed, and its task goes on for some seconds."""
    lock = place.temporary / "chong-run-left" / "state" / "generation-1.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert place.run("greet").code == 0
        assert lock.exists()
    assert place.run("greet").code == 0
    assert not lock.exists()


def test_schedules_are_not_fired(place: Foreground):
    """The one task runs that was named, although there is room and time for the other one."""
    answer = place.run("leaves_room", "--tasks", "scheduled_dev_tasks")
    assert (answer.code, json.loads(answer.out.splitlines()[-1])) == (0, "done")
    assert not (place.root / "fired").exists()
