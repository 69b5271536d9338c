"""What a killed supervisor, a killed forkserver, and both of them cost: section 11, with real processes."""

import itertools
import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from metronome import Metronome
from node_bench import LEASE, S, Supervised, is_alive, seconds, wait_until


@pytest.fixture
def patient(place: Supervised) -> Supervised:
    """As `node`, with a forkserver that waits for long: a busy machine may be slow to start the next supervisor."""
    return place.start(lease=30)


def release(node: Supervised) -> None:
    (node.root / "open").touch()


def begin_until(node: Supervised) -> str:
    return node.begun("until", path=str(node.root / "open"))


# --- the supervisor ------------------------------------------------------------------------------------------


def test_a_running_task_goes_on_under_the_next_supervisor(patient: Supervised):
    """Same attempt, same process; its progress goes on and its result is kept."""
    node = patient
    task_id = begin_until(node)
    pid, term = node.worker_of(task_id), node.task(task_id).lease_owner
    node.kill()
    node.start(lease=30)
    found = node.wait_for(task_id, S.RUNNING)
    assert found.lease_owner != term
    done = wait_until(lambda: node.task(task_id).progress, "progress").done
    wait_until(lambda: node.task(task_id).progress.done > done, "more progress")
    assert node.worker_of(task_id) == pid
    release(node)
    task = node.end_of(task_id)
    assert (task.status, task.outcome, task.attempt) == (S.SUCCEEDED, "released", 1)
    assert len(node.journal("begin")) == 1


def test_a_paused_task_stays_paused_under_the_next_supervisor(patient: Supervised):
    """Until it is resumed there; the pause is one."""
    node = patient
    task_id = begin_until(node)
    node.cli("pause", task_id, "--wait")
    pid = node.worker_of(task_id)
    node.kill()
    node.start(lease=30)
    assert node.task(task_id).status is S.PAUSED
    assert node.cli("resume", task_id, "--wait").code == 0
    release(node)
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert node.trail(task_id).count(S.PAUSED) == 1
    assert not is_alive(pid)


def test_a_stop_under_way_is_carried_out_by_the_next_supervisor(patient: Supervised):
    """The deaf task had been told; its ladder is climbed again, from its foot."""
    node = patient
    task_id = node.begun("deaf")
    node.cli("stop", task_id, "--reason", "enough")
    node.wait_for(task_id, S.STOPPING)
    node.kill()
    node.start(lease=30)
    task = node.end_of(task_id)
    assert (task.status, task.forced, task.stop.reason) == (S.STOPPED, True, "enough")


def test_a_task_that_was_starting_runs_once(patient: Supervised):
    """The forkserver had not read the order yet: it still does, and the next supervisor tells it to go."""
    node = patient
    node.end_of(node.submit("noop"))
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    task_id = node.submit("noop")
    node.wait_for(task_id, S.STARTING)
    node.kill()
    os.kill(forkserver, signal.SIGCONT)
    node.start(lease=30)
    task = node.end_of(task_id)
    assert task.status is S.SUCCEEDED
    assert len([entry for entry in node.journal() if entry["id"] == task_id]) == 1


def test_a_result_that_came_while_nobody_listened_is_kept(patient: Supervised):
    """It lies in the socket until the next supervisor reads it."""
    node = patient
    task_id = begin_until(node)
    node.kill()
    release(node)
    wait_until(lambda: node.workers() == [], "the worker's end")
    node.start(lease=30)
    task = node.end_of(task_id)
    assert (task.status, task.outcome, task.exit_code) == (S.SUCCEEDED, "released", 0)


def test_a_crash_while_nobody_listened_is_told(patient: Supervised):
    """With its signal, which the forkserver has kept."""
    node = patient
    task_id = node.begun("hold")
    pid = node.worker_of(task_id)
    node.kill()
    os.kill(pid, signal.SIGKILL)
    node.start(lease=30)
    task = node.end_of(task_id)
    assert (task.status, task.failure.kind, task.exit_signal) == (S.FAILED, "crashed", signal.SIGKILL)


def test_a_timeout_counts_on_over_a_takeover(patient: Supervised):
    """The running time before it is rebuilt from the trail."""
    node = patient
    task_id = node.submit("timed.slow")
    node.wait_for(task_id, S.RUNNING)
    node.kill()
    node.start(lease=30)
    back = datetime.now(UTC)
    task = node.end_of(task_id)
    assert (task.status, task.failure.kind) == (S.FAILED, "timeout")
    due = max(3, seconds(task.started_at, back))  # on a busy machine nobody may be there yet when it is due
    assert seconds(task.started_at, task.ended_at) < due + 1.5


def test_waiting_work_survives_its_supervisor(place: Supervised):
    """What was accepted runs in the next term, in its order."""
    node = place.start("--max-parallel", "1")
    first = begin_until(node)
    waiting = [node.submit("noop") for _ in range(5)]
    node.kill()
    release(node)
    node.start("--max-parallel", "1")
    assert {task.status for task in node.ends_of([first, *waiting])} == {S.SUCCEEDED}
    assert [entry["id"] for entry in node.journal("begin")] == [first, *waiting]


def has_been(node: Supervised, task_id: str, status: S) -> bool:
    return status in node.trail(task_id)


STAGES = {
    "accepted": lambda _node, _task_id: True,
    "starting": lambda node, task_id: has_been(node, task_id, S.STARTING),
    "begun": lambda node, task_id: any(entry["id"] == task_id for entry in node.journal("begin")),
    "running": lambda node, task_id: has_been(node, task_id, S.RUNNING),
    "succeeded": lambda node, task_id: has_been(node, task_id, S.SUCCEEDED),
}
"""How far the newest task has come when its supervisor is killed."""


def test_kills_at_each_stage_of_a_task_lose_and_double_nothing(place: Supervised):
    """Twenty terms under a stream of no-op tasks: each accepted one succeeds, and each attempt runs once."""
    node = place.start(lease=30)
    accepted: list[str] = []
    for waiting, (stage, is_reached) in itertools.product((1, 2, 4, 8), STAGES.items()):
        accepted += [node.submit("noop") for _ in range(waiting)]
        wait_until(partial(is_reached, node, accepted[-1]), f"a newest task that is {stage}")
        node.kill()
        node.start(lease=30)
    check_all_ran_once(node, accepted)


@pytest.mark.parametrize("step", ["begun", "containment", "attached", "accepting"])
def test_kills_while_starting_up_lose_and_double_nothing(place: Supervised, step):
    """The terms between are killed before they have done with what they found: two in a row at each step."""
    node = place.start(lease=30)
    accepted = [node.submit("span", seconds=0.05) for _ in range(10)]
    node.kill()
    for _ in range(2):
        node.start(lease=30, wait=False)
        node.wait_until_said(step)
        node.kill()
    node.start(lease=30)
    check_all_ran_once(node, accepted)


def check_all_ran_once(node: Supervised, accepted: list[str]) -> None:
    tasks = node.ends_of(accepted)
    assert {task.status for task in tasks} == {S.SUCCEEDED}
    runs = [(entry["id"], entry["attempt"]) for entry in node.journal("begin")]
    assert len(runs) == len(set(runs)) == len(accepted)
    assert {task.id for task in tasks} == {task_id for task_id, _ in runs}


# --- the forkserver --------------------------------------------------------------------------------------------


def test_a_killed_forkserver_is_replaced(node: Supervised):
    """Running tasks finish, new ones start within two seconds."""
    running = [begin_until(node) for _ in range(3)]
    with Metronome(node.root) as metronome:
        killed = time.time()
        os.kill(node.forkserver(), signal.SIGKILL)
        fresh = node.submit("noop")
        node.end_of(fresh)
    assert node.wait_for_word(fresh)["at"] - killed < 2 + metronome.lateness
    release(node)
    tasks = node.ends_of(running)
    assert [(task.status, task.attempt, task.exit_code) for task in tasks] == [(S.SUCCEEDED, 1, 0)] * 3
    wait_until(lambda: node.zombies_of(node.supervisor.pid) == [], "no zombies")


def test_kills_of_the_forkserver_lose_and_double_nothing(node: Supervised):
    """Three of them, under a stream of tasks."""
    dice = random.Random(5)
    accepted: list[str] = []
    for _ in range(3):
        accepted += [node.submit("noop") for _ in range(dice.randint(5, 20))]
        os.kill(node.forkserver(), signal.SIGKILL)
    tasks = node.ends_of(accepted)
    assert {task.status for task in tasks} == {S.SUCCEEDED}
    assert sorted(entry["id"] for entry in node.journal("begin")) == sorted(accepted)


# --- both ------------------------------------------------------------------------------------------------------


def test_both_dead_leave_no_worker(node: Supervised):
    """The leash ends deaf ones and looping ones within a second; they are lost, and nothing runs again by itself."""
    ids = [node.begun("deaf"), node.begun("c.loop"), node.begun("hold")]
    pids = [node.worker_of(task_id) for task_id in ids]
    os.kill(node.forkserver(), signal.SIGKILL)
    with Metronome(node.root) as metronome:
        node.kill()
        died = time.monotonic()
        wait_until(lambda: not any(map(is_alive, pids)), "the workers' ends")
        took = time.monotonic() - died
    assert took < 1 + metronome.lateness
    wait_until(lambda: all(lease.is_past for lease in node.store.leases(ids)), "the end of their leases")
    shown = node.cli("reconcile", "--dry-run", "--json")
    assert sorted(row["id"] for row in shown.json) == sorted(ids)
    assert {task.status for task in map(node.task, ids)} == {S.RUNNING}
    node.cli("reconcile")
    assert {task.status for task in map(node.task, ids)} == {S.LOST}
    node.start()
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
    assert len([entry for entry in node.journal("begin") if entry["id"] in ids]) == 3


def test_after_a_double_fault_the_next_term_knows_at_once(node: Supervised):
    """The locks prove everything dead: lost without waiting for a lease, the waiting work runs."""
    task_id = node.begun("hold")
    node.kill()
    os.kill(node.forkserver(), signal.SIGKILL)
    node.start(lease=30)
    task = node.end_of(task_id)
    assert task.status is S.LOST
    assert "died" in node.moment(task_id, S.LOST).reason
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_when_nobody_comes_the_forkserver_ends_its_workers(place: Supervised):
    """Before their leases are over; the next term then tells truthfully how each ended, and runs what waited."""
    node = place.start("--max-parallel", "3")
    ids = {name: node.begun(name) for name in ("hold", "deaf")}
    ids["until"] = begin_until(node)
    waiting = node.submit("noop")
    leases = {lease.task_id: lease.until for lease in node.store.leases()}
    node.kill()
    release(node)
    wait_until(lambda: node.processes() == {}, "the end of everything", 4 * LEASE)
    assert time.time() < max(until.timestamp() for until in leases.values()) + 0.5
    node.start()
    assert node.end_of(waiting).status is S.SUCCEEDED
    tasks = {name: node.end_of(task_id) for name, task_id in ids.items()}
    assert (tasks["until"].status, tasks["until"].outcome) == (S.SUCCEEDED, "released")
    assert (tasks["hold"].status, tasks["hold"].exit_signal) == (S.FAILED, signal.SIGTERM)
    assert (tasks["deaf"].status, tasks["deaf"].exit_signal) == (S.FAILED, signal.SIGKILL)
    assert "no supervisor came back" in tasks["hold"].failure.message
    assert len(node.journal("begin")) == 4


KEPT = """
import os, time
from chong.worker import task

@task("kept", retries=1, backoff=0.01)
def kept(ctx, gate):
    if ctx.last_checkpoint is not None:
        return ctx.last_checkpoint
    open(gate + ".begun", "w").close()
    while not os.path.exists(gate):
        time.sleep(0.01)
    for page in range(8):
        ctx.checkpoint(state={"page": page})
    time.sleep(600)
"""


def test_a_state_that_nobody_heard_is_there_for_the_next_attempt(place: Supervised):
    """It was the last of several in a row, after the supervisor's death, and no other one came in time."""
    (place.root / "kept.py").write_text(KEPT)
    node = place.start("--tasks", "kept")
    gate = node.root / "open"
    task_id = node.submit("kept", gate=str(gate))
    wait_until(gate.with_name("open.begun").exists, "its own code")
    node.wait_for(task_id, S.RUNNING)
    node.kill()
    gate.touch()
    wait_until(lambda: node.processes() == {}, "the end of everything", 4 * LEASE)
    task = node.start("--tasks", "kept").end_of(task_id)
    assert (task.outcome, task.attempt) == ({"page": 7}, 2)


def test_what_waits_for_a_time_of_its_own_still_does_under_the_next_supervisor(place: Supervised):
    """A retry that the task put off by itself, with its state; and a task that was submitted for later."""
    words = ("--tasks", "node_retry_tasks")
    node = place.start(*words, lease=30)
    due = datetime.now(UTC) + timedelta(seconds=6)
    later = node.cli("submit", "noop", "--at", due.isoformat()).out.strip()
    again = node.submit("ask.later", after=5)
    node.wait_for(again, S.RETRYING)
    node.kill()
    node.start(*words, lease=30)
    assert [node.task(task_id).status for task_id in (later, again)] == [S.QUEUED, S.RETRYING]
    assert "queued (due in " in node.cli("ps").out
    tasks = node.ends_of([later, again])
    assert [(task.status, task.outcome) for task in tasks] == [(S.SUCCEEDED, 1), (S.SUCCEEDED, 7)]
    began = node.moment(later, S.STARTING).at
    wait = node.moment(again, S.STARTING).at - node.moment(again, S.RETRYING).at
    assert timedelta(seconds=4.99) <= wait < timedelta(seconds=30)  # its backoff would be a minute
    assert due <= began < due + timedelta(seconds=30)


@pytest.mark.parametrize("dies", ["supervisor", "forkserver"])
def test_a_retry_waits_out_its_backoff_whoever_dies(place: Supervised, dies):
    """About two seconds after the second failure, also where something else would queue it at once."""
    node = place.start(lease=30)
    task_id = node.submit("fails.twice")
    wait_until(lambda: [s for s in node.trail(task_id) if s is S.RETRYING] == [S.RETRYING, S.RETRYING], "two failures")
    if dies == "supervisor":
        node.kill()
        node.start(lease=30)
    else:
        os.kill(node.forkserver(), signal.SIGKILL)
    node.end_of(task_id)
    trail = node.store.history(task_id)
    failed = [step.at for step in trail if step.target is S.RETRYING][-1]
    started = [step.at for step in trail if step.target is S.STARTING][-1]
    assert (started - failed).total_seconds() >= 1.6
