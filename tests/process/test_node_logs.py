"""What grows on a node stays in its bounds while the node works."""

import os
import time
from pathlib import Path

import pytest
from node_bench import InProcess, S, wait_until

from chong.store.ids import new_id
from chong.store.specimens import stored_end
from chong.supervisor.logbounds import GENERATION_LOG_MAX, PAGE

MEBIBYTE = 1024 * 1024
MODULES = ("node_tasks", "log_tasks")


@pytest.fixture
def node(bench: InProcess) -> InProcess:
    return bench.start(modules=MODULES)


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def log_of(node: InProcess, task_id: str, attempt: int = 1) -> Path:
    return node.paths.log_of(f"{task_id}.{attempt}")


def aged(path: Path, *, days: float) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch()
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_a_flood_is_cut_while_it_goes_on(node: InProcess):
    """The disk does not fill up before the run is over, and the newest lines are whole."""
    gate = node.root / "gate"
    task_id = node.submit("log.floods", path=str(gate))
    node.wait_for(task_id, S.RUNNING)
    log = log_of(node, task_id)
    wait_until(lambda: log.stat().st_size > 8 * MEBIBYTE, "a flood")
    wait_until(lambda: allocated(log) < log.stat().st_size // 2, "a cut")
    gate.touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    wait_until(lambda: allocated(log) <= MEBIBYTE + 2 * PAGE, "the last cut")
    left = log.read_bytes().lstrip(b"\0")
    assert left.endswith(b"x\nthe end\n")
    assert set(left[left.index(b"\n") :].removesuffix(b"the end\n").split()) == {b"x" * 63}


def test_a_flood_that_is_over_at_once_is_cut_at_its_end(node: InProcess):
    """Nobody has looked while it ran."""
    ids = [node.submit("log.flood", mebibytes=3) for _ in range(3)]
    assert [task.status for task in node.ends_of(ids)] == [S.SUCCEEDED] * 3
    for task_id in ids:
        log = log_of(node, task_id)
        wait_until(lambda log=log: allocated(log) <= 64 * 1024 + 2 * PAGE, "the last cut")
        assert log.read_bytes().endswith(b"the end\n")


def test_what_ended_with_the_node_is_cut_before_it_goes(node: InProcess):
    """The next term does not know of it any more."""
    task_id = node.submit("log.flood", mebibytes=3)
    node.end_of(task_id)
    node.close()
    assert allocated(log_of(node, task_id)) <= 64 * 1024 + 2 * PAGE


def test_a_log_whose_bound_is_not_known_is_left_alone(node: InProcess):
    """A task that waits under a next term may end there without a run: no bound was told, the default is too small."""
    task_id = node.submit("log.fails")
    node.wait_for(task_id, S.RETRYING)
    node.controller.close()
    node.start(modules=MODULES)
    node.controller.stop(task_id)
    assert node.end_of(task_id).status is S.CANCELLED
    node.controller.close()
    assert allocated(log_of(node, task_id)) >= 20 * MEBIBYTE


def test_the_log_of_a_forkserver_is_bounded(node: InProcess):
    """What modules print at their import, and it lives as long as the node."""
    node.run("noop")
    log = node.paths.generation_log(1)
    with log.open("ab") as written:
        written.write(b"x" * (GENERATION_LOG_MAX + 4 * MEBIBYTE))
    wait_until(lambda: allocated(log) <= GENERATION_LOG_MAX + 2 * PAGE, "a cut")


def test_old_logs_go_but_not_those_of_open_tasks(bench: InProcess):
    """One that is not over, whatever its age, proves by its log that it has run."""
    bench.start(max_parallel=1)
    bench.begun("hold")
    waiting = bench.submit("hold")
    bench.close()
    old = aged(bench.paths.log_of(f"{new_id()}.1"), days=40)
    kept = aged(bench.paths.log_of(f"{new_id()}.1"), days=20)
    proof = aged(log_of(bench, waiting), days=400)
    bench.start()
    wait_until(lambda: not old.exists(), "the old log is gone")
    assert kept.exists()
    assert proof.exists()


def test_old_tasks_go_from_the_store_where_that_is_asked_for(bench: InProcess):
    """With its own history; what has just ended stays."""
    old = stored_end(bench.store, 1)
    bench.start(keep_tasks=30.0)
    young = bench.run("noop")
    wait_until(lambda: bench.store.get(old.id) is None, "the old task is gone")
    assert bench.store.get(young.id) is not None
