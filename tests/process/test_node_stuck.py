"""A forkserver that is frozen while nothing new is submitted: only it can reap its workers, and tell their ends."""

import os
import signal
from datetime import UTC, datetime

from node_bench import InProcess, S, is_alive, seconds, wait_until

MARGIN = 1.0
"""What a worker may take to end, and its supervisor to see that."""


def test_a_stop_takes_effect_though_the_forkserver_is_frozen(node: InProcess):
    """It is replaced; the task acknowledged the stop and ended by itself, so the ladder's late signals are no force."""
    task_id = node.begun("hold")
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    node.controller.stop(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.exit_code, task.forced, task.flags) == (S.STOPPED, 0, False, frozenset())
    assert seconds(task.stop.acknowledged_at, task.ended_at) < MARGIN
    assert not is_alive(forkserver)
    assert node.run("noop").status is S.SUCCEEDED


def test_a_kill_takes_effect_though_the_forkserver_is_frozen(node: InProcess):
    """What ends the run was force, and is told as such."""
    task_id = node.begun("deaf")
    os.kill(node.forkserver(), signal.SIGSTOP)
    node.controller.stop(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.exit_signal, task.forced, task.flags) == (S.STOPPED, signal.SIGKILL, True, frozenset())


def test_an_end_is_noticed_though_the_forkserver_is_frozen(node: InProcess):
    """By itself, with nothing asked and nothing else submitted; the moment on record is that of the end."""
    path = node.root / "open"
    task_id = node.begun("until", path=str(path))
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    touched = datetime.now(UTC)
    path.touch()
    task = node.end_of(task_id)
    assert (task.status, task.outcome) == (S.SUCCEEDED, "released")
    assert seconds(touched, task.ended_at) < MARGIN
    wait_until(lambda: not is_alive(forkserver), "its end")


def test_the_other_runs_of_a_frozen_forkserver_go_on(node: InProcess):
    """They come to the supervisor, as after any death of a forkserver."""
    path = node.root / "open"
    bystander = node.begun("until", path=str(path))
    crashed = node.begun("hold")
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    os.kill(node.worker_of(crashed), signal.SIGSEGV)
    task = node.end_of(crashed)
    assert (task.status, task.failure.cause) == (S.FAILED, "SIGSEGV")
    assert not is_alive(forkserver)
    assert node.task(bystander).status is S.RUNNING
    path.touch()
    assert node.end_of(bystander).outcome == "released"
