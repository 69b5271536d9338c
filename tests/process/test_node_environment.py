"""What a node's tasks are given by definition and by setting, as a task and its operator see it."""

import os
import re

import pytest
from needs import as_root
from node_bench import InProcess, S, Supervised, wait_until

from chong.store.sqlite import SqliteTaskStore

MODULES = ("node_tasks", "given_tasks")
SECRET = "geheim-7f3a"


@pytest.fixture
def given(bench: InProcess) -> InProcess:
    return bench.start(modules=MODULES)


def test_a_task_sees_basic_variables_and_those_that_were_named(bench: InProcess):
    """The rest of the supervisor's environment is no task's business, chong's own least of all."""
    os.environ |= {"LC_TIME": "C", "TZ": "UTC", "AWS_REGION": "x", "AWS_KEY": "y", "PGPASSWORD": SECRET}
    os.environ |= {"CHONG_DB": SECRET, "SOME_TOKEN": SECRET}
    node = bench.start(pass_env=("AWS_*", "NODE_*", "CHONK", "*_TOKEN_"))
    seen = node.run("look").outcome["environment"]
    assert {"PATH", "HOME", "PYTHONPATH", "LC_TIME", "TZ", "AWS_REGION", "AWS_KEY", "CHONG_RUN"} <= set(seen)
    assert not {"PGPASSWORD", "CHONG_DB", "SOME_TOKEN"} & set(seen)
    assert SECRET not in str(seen)


def test_no_secret_of_the_supervisor_can_be_reached_from_a_task(place: Supervised):
    """Not in its environment, not in its parent's, not in any open file or argument of the two."""
    place.environment |= {"CHONG_DB": f"sqlite:///{place.state}/{SECRET}.db", "PGPASSWORD": SECRET}
    node = place.start("--tasks", "given_tasks")
    node.__dict__["store"] = SqliteTaskStore(node.state / f"{SECRET}.db")
    task = node.end_of(node.submit("given.search", word=SECRET))
    assert (task.status, task.outcome["found"]) == (S.SUCCEEDED, [])
    assert task.outcome["looked"] >= 6


def test_the_end_of_a_task_says_what_it_has_used(given: InProcess):
    """CPU and the most memory are the kernel's account of the whole run, whatever was sampled before."""
    task = given.run("given.spend", seconds=0.4, mib=80)
    assert 0.4 <= task.usage.cpu_seconds < 30
    assert task.usage.max_rss_bytes >= 80 << 20
    assert task.usage.rss_bytes is None


def test_a_task_whose_forkserver_was_killed_has_its_usage_too(given: InProcess):
    """The supervisor reads the end itself, and what the run has used."""
    task_id = given.begun("given.waits", mib=60, path=str(given.root / "open"))
    os.kill(given.forkserver(), 9)
    assert given.run("noop").status is S.SUCCEEDED
    (given.root / "open").touch()
    task = given.end_of(task_id)
    assert task.status is S.SUCCEEDED
    assert (task.usage.rss_bytes, task.usage.max_rss_bytes >= 60 << 20) == (None, True)


def test_a_sample_after_the_end_does_not_hide_the_final_usage(given: InProcess):
    """The sampler looks at a zombie, or at an old table; the last word is the kernel's."""
    task_id = given.begun("given.waits", mib=60, path=str(given.root / "open"))
    wait_until(lambda: given.task(task_id).usage, "a sample")
    assert given.task(task_id).usage.rss_bytes is not None
    (given.root / "open").touch()
    assert given.end_of(task_id).usage.rss_bytes is None


def test_memory_beyond_the_definitions_is_an_exception_of_the_task(given: InProcess):
    """`failed`, `exception`, and the traceback says where; the node and its other runs have their memory."""
    task = given.run("given.hog", mib=600)
    assert (task.status, task.failure.kind, task.failure.cause) == (S.FAILED, "exception", "MemoryError")
    assert "bytearray" in task.failure.traceback


def test_a_missing_directory_fails_the_task_and_is_named(given: InProcess):
    """In `show` alone an operator reads what to make; the code did not run anywhere."""
    task = given.run("given.nowhere")
    assert (task.status, task.failure.kind, task.failure.cause) == (S.FAILED, "exception", "FileNotFoundError")
    assert task.failure.message.startswith("cwd: expected a directory that the run may enter, got '/nonexistent'")
    assert given.journal() == []


@as_root
def test_a_task_of_a_user_gives_and_takes_large_values(given: InProcess):
    """Parameters, state and result go through the state directory, where the user may not go."""
    task = given.run("given.games", word="w" * 100_000)
    assert task.status is S.SUCCEEDED, task.failure
    assert (task.outcome["word"], len(task.outcome["big"]), task.outcome["user"]) == (100_000, 200_000, "games")
    assert task.outcome["state"] == 100_000
    wait_until(lambda: list(given.paths.runs.iterdir()) == [], "the release")


@as_root
def test_a_deaf_task_of_a_user_is_ended_like_any_other(given: InProcess):
    """By signals of the supervisor's, to a group that is no longer its own user's."""
    task_id = given.submit("given.games.deaf")
    given.wait_for(task_id, S.RUNNING)
    wait_until(lambda: given.task(task_id).progress, "the task's own code")
    given.controller.stop(task_id)
    task = given.end_of(task_id)
    assert (task.status, task.forced, task.exit_signal) == (S.STOPPED, True, 9)


def test_a_task_of_an_unknown_user_is_refused_when_it_is_submitted(given: InProcess):
    """Nothing is queued that can only fail, and the reason has expected and got."""
    with pytest.raises(Exception, match="user: expected a user of this machine, got 'chong-has-none'"):
        given.submit("given.strangers")
    (broken,) = wait_until(lambda: [each.error for each in given.store.catalogue() if each.error], "the catalogue")
    wanted = r"given_tasks:\d+ \(strangers\) is refused: user: expected a user of this machine, got 'chong-has-none'"
    assert re.fullmatch(wanted, broken)


@pytest.mark.parametrize(
    ("name", "said"), [("CHONG_DB", "none of chong's own"), ("A=b", "expected variables like LANG")]
)
def test_a_name_that_can_never_be_passed_is_refused(place: Supervised, name: str, said: str):
    """One line, exit 2."""
    answer = place.refuse("--state-dir", str(place.state), "--pass-env", name)
    assert (answer.code, said in answer.err, f"got {name!r}" in answer.err) == (2, True, True)
