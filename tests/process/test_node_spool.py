"""Files of a node that cannot be read cost what they held, never the node."""

from itertools import pairwise

import pytest
from node_bench import InProcess, S, seconds, wait_until

from chong.store.specimens import task_id

DEEP = "[" * 100_000


def test_a_node_starts_beside_submissions_that_cannot_be_read(bench: InProcess):
    """Each is set aside, what cannot be renamed stays where it is, and the rest is taken over."""
    accepted = bench.paths.accepted
    accepted.mkdir(parents=True, mode=0o700)
    bench.state.chmod(0o700)
    (accepted / f"{task_id(1)}.json").mkdir()
    (accepted / f"{task_id(2)}.json").write_text(DEEP)
    (accepted / f"{task_id(3)}.json").write_text("{")
    (accepted / f"{task_id(3)}.json.unreadable").mkdir()
    (accepted / f".{task_id(4)}.json.new").mkdir()
    node = bench.start()
    assert node.run("noop").status is S.SUCCEEDED
    left = {path.name for path in accepted.iterdir()}
    assert {f"{task_id(1)}.json.unreadable", f"{task_id(2)}.json.unreadable", f"{task_id(3)}.json"} <= left


def fill(node: InProcess) -> str:
    return node.submit("until", path=str(node.root / "open"))


@pytest.mark.parametrize("content", ["{", DEEP, '"\\ud800"', "NaN", None])
def test_an_attempt_whose_state_cannot_be_read_begins_without_one(bench: InProcess, content):
    """The state is set aside, and the task is no worse off than at its first attempt."""
    node = bench.start(max_parallel=1)
    task = node.submit("stateful", size=10)
    node.wait_for(fill(node), S.RUNNING)  # it has the one slot from the first failure on
    node.wait_for(task, S.RETRYING)
    kept = node.paths.checkpoints / f"{task}.json"
    kept.unlink()
    kept.mkdir() if content is None else kept.write_text(content)
    (node.root / "open").touch()
    ended = node.end_of(task)
    assert (ended.failure.kind, ended.failure.cause, ended.attempt) == ("exception", "ValueError", 2)
    assert kept.with_name(f"{kept.name}.unreadable").exists()


def test_a_start_that_cannot_be_handed_over_waits_longer_each_time(bench: InProcess):
    """Without a pause it would fork, and store three changes, as often as the machine can."""
    node = bench.start()
    node.paths.runs.rmdir()
    node.paths.runs.touch()  # what is too large for a frame finds no place
    task = node.submit("echo", text="x" * 100_000)
    wait_until(lambda: node.task(task).unstarted >= 3, "three starts")
    starts = [move.at for move in node.store.history(task) if move.target is S.STARTING]
    first, second = (seconds(earlier, later) for earlier, later in pairwise(starts[:3]))
    assert 0.5 < first < second
    node.paths.runs.unlink()
    node.paths.runs.mkdir()
    ended = node.end_of(task)
    assert (ended.status, ended.attempts_used) == (S.SUCCEEDED, 1)


def test_a_submission_that_cannot_be_read_any_more_fails_its_task_alone(bench: InProcess):
    """And that it cannot be removed either ends nothing."""
    node = bench.start(max_parallel=1)
    blocking = fill(node)
    node.wait_for(blocking, S.RUNNING)
    task = node.submit("noop")
    kept = node.paths.accepted / f"{task}.json"
    kept.unlink()
    kept.mkdir()
    (node.root / "open").touch()
    ended = node.end_of(task)
    assert (ended.failure.kind, ended.failure.cause) == ("protocol", "params_gone")
    wait_until(lambda: node.controller.running == 0, "its slot")
    assert node.run("noop").status is S.SUCCEEDED
