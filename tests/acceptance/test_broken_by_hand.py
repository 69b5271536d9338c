"""Twelve ways to break a task, told by `ps`, `show`, `logs` and `tasks` alone, in words that an operator looks for."""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from node_bench import S, Supervised, wait_until

WIDE = "600"
MODULES = ("broken_tasks", "broken_import_tasks", "broken_twin_tasks")


@pytest.fixture(scope="module")
def broken() -> Iterator[Supervised]:
    """A node with tasks that are broken, and with modules that are."""
    made = Supervised()
    made.environment["COLUMNS"] = WIDE
    try:
        yield made.start(*(word for module in MODULES for word in ("--tasks", module)))
    finally:
        made.finish()


def facts(node: Supervised, task_id: str) -> dict[str, str]:
    """What `show` says, by the name of each fact; its last lines are the traceback's."""
    lines = [line.strip() for line in node.cli("show", task_id).out.splitlines()]
    return {word: rest.strip() for word, _, rest in (line.replace("  ", "\0", 1).partition("\0") for line in lines)}


def row(node: Supervised, task_id: str) -> str:
    return next(line for line in node.cli("ps", "--all").out.splitlines() if line.startswith(task_id[-8:]))


@pytest.mark.parametrize(
    ("name", "end", "more"),
    [
        ("raises", "exception ValueError: no such page", {"kind": "exception", "cause": "ValueError"}),
        ("exits", "exception SystemExit: no way", {"kind": "exception", "cause": "SystemExit"}),
        ("leaves", "crashed exit code 7: the worker ended with exit code 7 and no result", {"exit code": "7"}),
        ("segfaults", "crashed SIGSEGV: the worker was ended by signal 11", {"exit signal": "11 (SIGSEGV)"}),
        (
            "hungry",
            "exception MemoryError",
            {"cause": "MemoryError", "memory limit": "512MiB (as the task is defined now)"},
        ),
        (
            "slow",
            "timeout, forced by SIGTERM: the task ran longer than its timeout of 0.3 s",
            {"kind": "timeout", "forced": "yes, SIGTERM had to end it"},
        ),
    ],
)
def test_what_ends_by_itself_says_how(broken: Supervised, name, end, more):
    """`ps` in one column, `show` with the facts."""
    task_id = broken.submit(f"broken.{name}")
    assert broken.end_of(task_id).status is S.FAILED
    told = facts(broken, task_id)
    assert (told["status"], told["end"][: len(end)]) == ("failed", end)
    assert more.items() <= told.items()
    assert end in row(broken, task_id)


@pytest.mark.parametrize(("name", "acknowledged"), [("swallows", "(after "), ("loops", "never, it met no checkpoint")])
def test_what_does_not_heed_a_stop_says_that_it_was_forced(broken: Supervised, name, acknowledged):
    """By which signal, who asked for it and why, and what each moment of the stop came to."""
    task_id = broken.submit(f"broken.{name}")
    wait_until(lambda: broken.task(task_id).progress, "its first checkpoint")
    answer = broken.cli("stop", task_id, "--wait", "--as", "olga", "--reason", "it hangs")
    assert (answer.code, answer.err) == (0, "")
    end = "forced by SIGTERM, asked by olga: it hangs"
    assert re.search(rf": stopped, {re.escape(end)}, (\w+ after \S+, )*effective after ", answer.out)
    told = facts(broken, task_id)
    assert (told["status"], told["end"], told["forced"]) == ("stopped", end, "yes, SIGTERM had to end it")
    assert acknowledged in told["acknowledged"]
    assert "(after " in told["effective"]
    assert end in row(broken, task_id)


def test_a_forced_end_with_an_exit_code_is_no_riddle(broken: Supervised):
    """An interruptible task was interrupted by a signal, and then ended by itself."""
    task_id = broken.submit("broken.interrupted")
    wait_until(lambda: broken.task(task_id).progress, "its first checkpoint")
    end = "forced: ended by itself after SIGTERM, asked by olga: it hangs"
    answer = broken.cli("stop", task_id, "--wait", "--as", "olga", "--reason", "it hangs")
    assert re.search(rf": stopped, {re.escape(end)}, (\w+ after \S+, )*effective after ", answer.out)
    told = facts(broken, task_id)
    assert (told["end"], told["exit code"]) == (end, "0")
    assert told["forced"] == "yes, SIGTERM was needed; it bore that and ended by itself with exit code 0"
    assert end in row(broken, task_id)


def test_a_result_in_spite_of_a_stop_is_told(broken: Supervised):
    """The word `succeeded` alone would hide that somebody wanted something else."""
    task_id = broken.submit("broken.stubborn")
    wait_until(lambda: broken.task(task_id).progress, "its first checkpoint")
    answer = broken.cli("stop", task_id, "--wait", "--as", "olga", "--reason", "it hangs")
    end = "result in spite of a stop, asked by olga: it hangs"
    assert (answer.code, answer.err) == (0, "")
    assert re.search(rf": succeeded, {re.escape(end)}, (\w+ after \S+, )*effective after ", answer.out)
    assert (facts(broken, task_id)["status"], facts(broken, task_id)["end"]) == ("succeeded", end)
    assert end in row(broken, task_id)


def test_a_result_that_came_after_the_time_out_is_told(broken: Supervised):
    """It counts, and it was late."""
    task_id = broken.submit("broken.belated")
    assert broken.end_of(task_id).status is S.SUCCEEDED
    assert facts(broken, task_id)["timeout"] == "was over before the result came"


def test_what_was_killed_from_outside_says_that_nobody_here_asked(broken: Supervised):
    """So that the search goes on elsewhere."""
    task_id = broken.submit("broken.waits")
    wait_until(lambda: broken.task(task_id).progress, "its first checkpoint")
    os.kill(broken.worker_of(task_id), signal.SIGKILL)
    assert broken.end_of(task_id).status is S.FAILED
    told = facts(broken, task_id)
    assert told["exit signal"] == "9 (SIGKILL)"
    assert told["end"].startswith("crashed SIGKILL: the worker was ended by signal 9 (SIGKILL)")
    assert "not asked for by chong" in told["end"]
    assert "forced" not in told
    assert "crashed SIGKILL" in row(broken, task_id)


def test_a_flooded_log_says_what_is_gone(broken: Supervised):
    """The newest part is there; the task itself is none the worse for it."""
    task_id = broken.submit("broken.floods")
    assert broken.end_of(task_id).status is S.SUCCEEDED
    answer = broken.cli("logs", task_id)
    assert "bytes of this log are gone" in answer.err
    assert "first line" not in answer.out
    assert answer.out.endswith("last line\n")
    assert facts(broken, task_id)["status"] == "succeeded"


def test_a_module_that_does_not_import_is_told_where_its_task_is_missed(broken: Supervised):
    """`submit` names the module that is to blame, `tasks` tells of all of them."""
    missed = broken.cli("submit", "broken.unknown")
    assert (missed.code, missed.err.count("\n")) == (1, 1)
    assert "module broken_import_tasks failed: ModuleNotFoundError: No module named 'no_such_library'" in missed.err
    (line,) = [line for line in broken.cli("tasks").out.splitlines() if "(broken_import_tasks)" in line]
    assert "not imported: ModuleNotFoundError: No module named 'no_such_library' (" in line


def test_a_name_that_is_defined_twice_is_told(broken: Supervised):
    """By both places; the first one's task runs."""
    (line,) = [line for line in broken.cli("tasks").out.splitlines() if "broken.raises" in line]
    assert re.search(
        r"served, but broken_twin_tasks:\d+ \(\w+\) is refused: .* that of broken_tasks:\d+ \(\w+\) stays", line
    )


def test_a_run_whose_supervisor_is_gone_does_not_look_as_if_it_ran(place: Supervised):
    """Once its lease is past. Its end is the next supervisor's to find out."""
    place.environment["COLUMNS"] = WIDE
    broken = place.start("--tasks", "broken_tasks")
    task_id = broken.submit("broken.waits")
    wait_until(lambda: broken.task(task_id).progress, "its first checkpoint")
    broken.kill()
    wait_until(lambda: "running (lease past " in row(broken, task_id), "a lease that is past")
    assert "running (lease past " in facts(broken, task_id)["status"]
    assert "(node silent " in facts(broken, task_id)["node"]
    requested = broken.cli("stop", task_id)
    assert requested.code == 0
    assert "node node-a has been silent for " in requested.out
