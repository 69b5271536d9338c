"""What becomes of a run, however its process ends; the table of all ways to end stands in tests/hostile."""

import json
import os
import signal
import time

import pytest
from node_bench import InProcess, S, descriptors, gained, is_alive, seconds, wait_until


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_from_outside_is_told_as_such(shared: InProcess, number):
    """Nobody had asked for a stop: it is a crash, known within a second."""
    task_id = shared.begun("hold")
    asked = shared.moment(task_id, S.RUNNING).at
    os.kill(shared.worker_of(task_id), number)
    task = shared.end_of(task_id)
    assert (task.status, task.failure.kind, task.exit_signal) == (S.FAILED, "crashed", number)
    assert task.failure.message.endswith("not asked for by chong")
    assert seconds(asked, shared.moment(task_id, S.FAILED).stored_at) < 10


def test_a_death_is_stored_within_a_second(shared: InProcess):
    """From the journal entry before the exit to the store's own time."""
    task = shared.run("end", how="kill self")
    begun = shared.wait_for_word(task.id)["at"]
    assert shared.moment(task.id, S.FAILED).stored_at.timestamp() - begun < 1


def test_a_teardown_that_hangs_is_ended_after_its_grace(shared: InProcess):
    """The result counts, and the slot is free after 5 s."""
    task = shared.run("hangs.after")
    assert (task.status, task.outcome, task.exit_signal) == (S.SUCCEEDED, "kept", signal.SIGKILL)
    assert 5 <= seconds(task.started_at, task.ended_at) < 6.5
    assert "odd_exit" in shared.notes(task.id)
    assert shared.controller.running == 0


@pytest.mark.parametrize("size", [10, 60_000, 900_000, 1024 * 1024 - 2])
def test_a_result_within_the_bound_comes_back_whole(shared: InProcess, size):
    """In a frame, or through a file of the run that is gone afterwards."""
    task = shared.run("result", size=size)
    assert (task.status, task.outcome) == (S.SUCCEEDED, "y" * size)
    wait_until(lambda: not shared.paths.run_dir(task.run).exists(), "end of the run's files")


@pytest.mark.parametrize("size", [10, 200 * 1024])
def test_parameters_arrive_whole(shared: InProcess, size):
    """Small ones in `go`, large ones beside it; neither is ever in the store."""
    text = "ä" * (size // 2)
    task = shared.run("echo", text=text)
    assert task.outcome["length"] == len(text)
    wait_until(lambda: shared.spooled("submissions")[task.id]["ended_at"], "its end in the spool")


@pytest.mark.parametrize("size", [10, 250 * 1024])
def test_a_checkpoints_state_reaches_the_next_attempt(shared: InProcess, size):
    """As `ctx.last_checkpoint`; afterwards nothing of it is left."""
    task = shared.run("stateful", size=size)
    assert task.outcome == {"page": 7, "length": size, "attempt": 2}
    wait_until(lambda: task.id not in shared.spooled("states"), "end of the kept state")


@pytest.mark.parametrize("size", [10, 200 * 1024])
@pytest.mark.parametrize(
    "end",
    [
        "os._exit(3)",
        "os.kill(os.getpid(), 9)",
        "time.sleep(60)",
        "ctx.sleep(60)",
        "1 / 0",
        "time.sleep(0.2); os._exit(3)",
    ],
)
def test_the_newest_state_counts_however_the_attempt_ends(shared: InProcess, end: str, size: int):
    """Also when it had not left the worker yet: no finished work is done again."""
    task = shared.run("stateful.burst", end=end, size=size)
    assert task.outcome == {"page": 4, "length": size}
    wait_until(lambda: not list(shared.paths.runs.glob(f"*{task.id}*")), "the end of the runs' directories")


def test_a_held_back_state_that_cannot_be_removed_harms_nothing(shared: InProcess):
    """Neither the task's next report, nor the supervisor, which reads plain files only and keeps none of them open."""
    end = (
        "held = Path(ctx._progress._held_back); held.unlink(); held.mkdir(); ctx.sleep(0.2); "
        "ctx.checkpoint(state={'page': 9, 'text': ''})"
    )
    shared.run("noop")  # from here on the node has its forkserver, and the descriptors to it
    before = descriptors()
    for _ in range(3):
        assert shared.run("stateful.burst", end=end, size=10).outcome == {"page": 9, "length": 0}
    wait_until(lambda: not gained(before, descriptors()), "the end of what was opened for them")


def test_two_retries_are_three_attempts(shared: InProcess):
    """Each with its own log, in the one trail of the task."""
    task = shared.run("fails.twice")
    assert (task.status, task.outcome, task.attempt, task.unstarted) == (S.SUCCEEDED, 3, 3, 0)
    assert shared.trail(task.id) == [
        S.QUEUED,
        *([S.STARTING, S.RUNNING, S.RETRYING] * 2),
        S.STARTING,
        S.RUNNING,
        S.SUCCEEDED,
    ]
    assert all(shared.paths.log_of(f"{task.id}.{attempt}").exists() for attempt in (1, 2, 3))


def test_a_crash_is_retried_until_no_attempt_is_left(shared: InProcess):
    """The last one's failure is the task's."""
    task = shared.run("end.retried", how="os._exit(7)")
    assert (task.status, task.attempt, task.exit_code, task.failure.kind) == (S.FAILED, 3, 7, "crashed")


def test_retries_back_off(shared: InProcess):
    """About one second, then about two."""
    task = shared.run("fails.twice")
    begins = [entry["at"] for entry in shared.journal("begin") if entry["id"] == task.id]
    assert begins[1] - begins[0] >= 0.8
    assert begins[2] - begins[1] >= 1.6


@pytest.mark.parametrize("name", ["timed", "timed.c.loop"])
def test_a_run_beyond_its_timeout_fails(shared: InProcess, name):
    """Whether it looks, or loops in C."""
    task = shared.run(name)
    assert (task.status, task.failure.kind) == (S.FAILED, "timeout")
    assert task.forced is (name == "timed.c.loop")
    assert 0.3 <= seconds(task.started_at, task.ended_at) < 0.3 + 0.4 + 0.5


def test_a_stop_during_a_timeout_wins(shared: InProcess):
    """What an operator asked for is what it is called."""
    task_id = shared.submit("timed.deaf")
    shared.wait_for(task_id, S.STOPPING)
    shared.controller.stop(task_id)
    assert shared.end_of(task_id).status is S.STOPPED


def test_a_pause_stops_the_clock_of_the_timeout(shared: InProcess):
    """It runs 0.3 s of its 0.6 s, with a pause of 1 s in between."""
    task_id = shared.submit("timed.long")
    shared.wait_for(task_id, S.RUNNING)
    shared.controller.pause(task_id)
    paused = shared.wait_for(task_id, S.PAUSED)
    wait_until(lambda: time.time() - paused.status_changed_at.timestamp() > 1, "a second of pause")
    shared.controller.resume(task_id)
    assert shared.end_of(task_id).outcome == "in time"


def test_output_is_in_the_runs_log(shared: InProcess):
    """Both streams, flushed."""
    task = shared.run("writes", count=100_000)
    text = shared.paths.log_of(task.run).read_text()
    assert text.count("o") >= 100_000
    assert "to stderr" in text


@pytest.mark.parametrize("wait", [False, True])
def test_no_descendant_outlives_its_run(shared: InProcess, tmp_path, wait):
    """Children in its group, in sessions of their own, and a daemon: all gone when the task is final."""
    task_id = shared.submit("family", how=str(tmp_path / "pids"), wait=wait)
    shared.wait_for_word(task_id)
    if wait:
        shared.controller.stop(task_id)
    shared.end_of(task_id)
    pids = json.loads((tmp_path / "pids").read_text())
    assert [name for name, pid in pids.items() if is_alive(pid)] == []
