"""Runs that a kill does not end, and tasks that turn against the processes above them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge import RENEWAL, start
from needs import unavailable
from node_bench import S, Supervised, is_alive, wait_until
from tracer import PTRACE_O_TRACEEXIT
from waiting import state_of
from witness import Witness, cpu_of, start_of

HERE = Path(__file__).parent
UNKILLABLE = "unkillable"


def wait_for_flag(node: Supervised, task_id: str) -> None:
    wait_until(lambda: UNKILLABLE in node.task(task_id).flags, "the flag `unkillable`")


@contextlib.contextmanager
def tracer(pid: int, options: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that traces another one and never looks at it again."""
    words = [sys.executable, str(HERE / "tracer.py"), str(pid), str(options)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"traced\n"
            yield process
        finally:
            process.kill()


def test_a_run_that_a_tracer_holds_keeps_its_slot_until_it_is_gone(place: Supervised):
    """SIGKILL has no effect that anybody sees: it stays `stopping`, flagged, and costs nobody else anything.

    One is held in its exit, the other one as a zombie that its parent cannot see.
    """
    node = start(place)
    with Witness(node, RENEWAL):
        ids = [node.begun("deaf"), node.begun("deaf")]
        workers = [node.worker_of(task_id) for task_id in ids]
        with tracer(workers[0], PTRACE_O_TRACEEXIT), tracer(workers[1], 0):
            for task_id in ids:
                node.client.stop(task_id)
            for task_id in ids:
                wait_for_flag(node, task_id)
            forkserver = node.forkserver()
            spent = cpu_of(forkserver)
            for _ in range(5):
                assert node.end_of(node.submit("span", seconds=0.2)).status is S.SUCCEEDED
            assert cpu_of(forkserver) - spent < 0.5
            assert is_alive(forkserver)
            assert {node.task(task_id).status for task_id in ids} == {S.STOPPING}
            assert [lease.is_past for lease in node.store.leases(ids)] == [False, False]
        tasks = node.ends_of(ids)
        assert {(task.status, task.exit_signal, task.forced) for task in tasks} == {(S.STOPPED, signal.SIGKILL, True)}


@pytest.fixture
def frozen_disk(place: Supervised) -> Iterator[Path]:
    """A file system that can be frozen, in which the node's tasks may write."""
    image, mount = place.root / "image", place.root / "disk"
    mount.mkdir()
    steps = (
        ["truncate", "--size", "8M", str(image)],
        ["mkfs.ext4", "-q", str(image)],
        ["mount", "-o", "loop", str(image), str(mount)],
    )
    for step in steps:
        if shutil.which(step[0]) is None or subprocess.run(step, capture_output=True, check=False).returncode:
            unavailable(f"no file system to freeze: {' '.join(step)} does not work here")
    try:
        yield mount
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(mount)], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


def test_a_run_in_uninterruptible_sleep_keeps_its_slot_until_it_wakes(place: Supervised, frozen_disk: Path):
    """It writes to a frozen disk: no signal reaches it until the thaw, and then it is stopped at once."""
    node = start(place)
    with Witness(node, RENEWAL):
        task_id = node.begun("writes.on", path=str(frozen_disk / "file"))
        pid = node.worker_of(task_id)
        subprocess.run(["fsfreeze", "--freeze", str(frozen_disk)], check=True)
        wait_until(lambda: state_of(pid) == "D", "state D")
        node.client.stop(task_id)
        wait_for_flag(node, task_id)
        assert (node.task(task_id).status, node.store.leases([task_id])[0].is_past) == (S.STOPPING, False)
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
        subprocess.run(["fsfreeze", "--unfreeze", str(frozen_disk)], check=True)
        task = node.end_of(task_id)
        assert (task.status, task.forced) == (S.STOPPED, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_task_that_turns_against_its_forkserver_hurts_no_other(place: Supervised, number: signal.Signals):
    """Killed, it is replaced; frozen, it is ended as soon as a start waits too long, and then replaced."""
    node = start(place)
    supervisor = start_of(node.supervisor.pid)
    bystander = node.begun("until", path=str(node.root / "open"))
    forkserver = node.forkserver()
    task = node.submit("against.above", number=int(number), title="chong: forkserver")
    node.wait_for_word(task)
    fresh = node.submit("starts.soon")
    assert node.end_of(fresh).status is S.SUCCEEDED
    assert not is_alive(forkserver)
    (node.root / "open").touch()
    assert [node.end_of(each).outcome for each in (task, bystander)] == ["still here", "released"]
    assert start_of(node.supervisor.pid) == supervisor


def test_a_task_that_kills_its_supervisor_is_taken_over(place: Supervised):
    """No user of the same name can be kept from it: it is as any other death of a supervisor."""
    node = start(place, lease=30)
    task_id = node.submit("against.above", number=int(signal.SIGKILL), title="chong: supervisor")
    node.supervisor.wait()
    start(place, lease=30)
    assert node.end_of(task_id).outcome == "still here"
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_what_has_outlived_its_leash_ends_before_it_is_lost(place: Supervised):
    """Nobody above it is left; whoever only reads its log is not taken for it."""
    node = start(place)
    task_id = node.begun("unleashed")
    worker, forkserver = node.worker_of(task_id), node.forkserver()
    with node.paths.log_of(node.task(task_id).run).open() as log:
        reader = subprocess.Popen(["sleep", "600"], stdin=log)
    try:
        os.kill(forkserver, signal.SIGKILL)
        node.kill()
        wait_until(lambda: not is_alive(forkserver), "its forkserver's end")
        assert is_alive(worker)
        start(place)
        assert node.end_of(task_id).status is S.LOST
        wait_until(lambda: not is_alive(worker), "its end")
        assert [event["pid"] for event in node.events("survivor_ended")] == [worker]
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()


def namespace() -> tuple[str, ...]:
    """A pid namespace of its own, which ends with its first process."""
    words = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        unavailable("no pid namespace can be made here")
    return (*words, "sh", "-c", '"$@" & wait', "sh")


def test_a_task_that_kills_everything_takes_only_its_node(place: Supervised):
    """`kill(-1)` ends supervisor and forkserver: the leash ends the task itself, and it is lost."""
    node = start(place, within=namespace())
    outer, gate = Path("/proc/self/ns/pid").stat().st_ino, node.root / "gate"
    task_id = node.submit("kills.all", outer=outer, gate=str(gate))
    node.wait_for(task_id, S.RUNNING)
    gate.touch()
    node.supervisor.wait()
    wait_until(lambda: node.processes() == {}, "the end of everything")
    assert node.task(task_id).status is S.RUNNING
    start(place)
    assert node.end_of(task_id).status is S.LOST
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
