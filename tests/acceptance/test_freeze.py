"""A frozen task over the deaths of its supervisor, and by the command line."""

import os
import signal
import sys
from pathlib import Path

import pytest
from node_bench import S, Supervised, wait_until
from waiting import state_of


def is_frozen(pid: int) -> bool:
    return state_of(pid) == "T"


@pytest.fixture
def node(place: Supervised) -> Supervised:
    """Whose forkserver waits for long."""
    return place.start(lease=30)


def begun_mute(node: Supervised) -> str:
    """A task without a checkpoint, that runs until `let_go`."""
    return node.begun("mute.until", path=str(node.root / "open"))


def frozen_unsaved(place: Supervised) -> tuple[Supervised, str, int]:
    """A task without a checkpoint whose supervisor was killed when it had frozen it, and not stored that yet."""
    killed_at_save = (sys.executable, str(Path(__file__).with_name("killed_at_save.py")), "frozen")
    node = place.start(lease=30, within=killed_at_save)
    task_id = begun_mute(node)
    pid = node.worker_of(task_id)
    node.client.freeze(task_id)
    node.supervisor.wait(40)
    assert (node.task(task_id).status, is_frozen(pid)) == (S.RUNNING, True)
    return node, task_id, pid


def let_go(node: Supervised) -> None:
    (node.root / "open").touch()


def test_the_command_line_freezes_and_resumes(node: Supervised):
    """`show` says that it is more than a pause."""
    task_id = begun_mute(node)
    answer = node.cli("pause", task_id, "--freeze", "--wait", "--reason", "noisy")
    assert answer.code == 0
    assert answer.out.startswith(f"{task_id[-8:]} mute.until: paused (frozen), asked by ")
    assert is_frozen(node.worker_of(task_id))
    assert node.cli("show", task_id, "--json").json["flags"] == ["frozen"]
    assert node.cli("resume", task_id, "--wait").code == 0
    let_go(node)
    assert node.end_of(task_id).status is S.SUCCEEDED


def test_a_frozen_task_stays_so_under_the_next_supervisor(node: Supervised):
    """Until it is resumed there; its pause is one."""
    task_id = begun_mute(node)
    pid = node.worker_of(task_id)
    assert node.cli("pause", task_id, "--freeze", "--wait").code == 0
    node.kill()
    node.start(lease=30)
    assert ((task := node.task(task_id)).status, task.flags, is_frozen(pid)) == (S.PAUSED, {"frozen"}, True)
    assert node.cli("resume", task_id, "--wait").code == 0
    let_go(node)
    assert (task := node.end_of(task_id)).status is S.SUCCEEDED
    assert (task.attempt, node.trail(task_id).count(S.PAUSED)) == (1, 1)


def test_a_freeze_that_was_stored_and_undone_by_nobody_is_made_again(node: Supervised):
    """A supervisor that thawed a task and died before it could say so: what the store says counts."""
    task_id = node.begun("hold")
    pid = node.worker_of(task_id)
    assert node.cli("pause", task_id, "--freeze", "--wait").code == 0
    node.kill()
    os.killpg(pid, signal.SIGCONT)
    node.start(lease=30)
    wait_until(lambda: is_frozen(pid), "its freeze")
    assert node.cli("stop", task_id, "--wait").code == 0


def test_a_freeze_that_was_never_stored_is_undone(place: Supervised):
    """What is called running runs, though its command may be over by then."""
    node, task_id, pid = frozen_unsaved(place)
    [command] = node.store.commands(task_id)
    node.store.complete_command(command.id, "too_late", None)
    node.start(lease=30)
    wait_until(lambda: not is_frozen(pid), "its thaw")
    let_go(node)
    assert (task := node.end_of(task_id)).status is S.SUCCEEDED
    assert (task.attempt, S.PAUSED in node.trail(task_id)) == (1, False)


def test_the_command_of_a_freeze_that_was_never_stored_comes_again(place: Supervised):
    """It is open until its effect is stored, so the next supervisor carries it out."""
    node, task_id, pid = frozen_unsaved(place)
    node.start(lease=30)
    assert node.wait_for(task_id, S.PAUSED).flags == {"frozen"}
    assert is_frozen(pid)
    assert node.cli("resume", task_id, "--wait").code == 0
    let_go(node)
    assert node.end_of(task_id).status is S.SUCCEEDED


def test_a_supervisor_that_never_comes_back_leaves_no_frozen_process(place: Supervised):
    """The forkserver's ladder ends it, and its memory is free."""
    node = place.start()
    task_id = node.begun("hold")
    assert node.cli("pause", task_id, "--freeze", "--wait").code == 0
    node.kill()
    wait_until(lambda: node.processes() == {}, "the end of everything")
    node.start(lease=30)
    assert (task := node.end_of(task_id)).status is S.FAILED
    assert (task.failure.cause, task.flags) == ("orphaned", frozenset())
