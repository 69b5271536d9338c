"""Much of everything at once: output, crashes, results. The supervisor stays as prompt and as small as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from judge import RENEWAL, start
from node_bench import S, Supervised, wait_until
from witness import MIB, Witness

GIB = 1024 * MIB
CRASHES = 400
TURNS = 300


def test_a_storm_of_crashes_delays_no_renewal(place: Supervised):
    """As many segfaults as the machine takes: none is lost, none is called by another name, no lease comes near its
    end."""
    node = start(place, "--max-parallel", "16")
    with Witness(node, RENEWAL) as witness:
        ids = [node.submit("end", how="segfault") for _ in range(CRASHES)]
        tasks = node.ends_of(ids, limit=120)
        wait_until(lambda: witness.renewals >= 3, "three renewals")
    assert {(task.status, task.exit_signal) for task in tasks} == {(S.FAILED, 11)}


def test_four_floods_of_a_gibibyte_cost_the_supervisor_no_memory(place: Supervised):
    """Lines, one line without end, bytes: it is not the supervisor who reads them. Its size is the witness's to say."""
    node = start(place, "--max-parallel", "8")
    with Witness(node, RENEWAL):
        ids = [node.submit("floods", what=what, size=GIB) for what in ("lines", "one line", "binary", "newlines")]
        for task_id in ids:
            node.wait_for_word(task_id)
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
        assert [task.outcome for task in node.ends_of(ids, limit=120)] == [GIB] * 4


def test_four_results_of_100_mb_cost_the_supervisor_no_memory(place: Supervised):
    """They are refused where they arise."""
    node = start(place, "--max-parallel", "8")
    with Witness(node, RENEWAL):
        ids = [node.submit("end", how="huge and many") for _ in range(4)]
        assert {task.failure.kind for task in node.ends_of(ids)} == {"result_too_large"}


def test_a_vandal_leaves_its_successor_what_it_found_itself(place: Supervised):
    """Everything that it changed was its own copy."""
    node = start(place)
    before = node.end_of(node.submit("surroundings")).outcome
    assert node.end_of(node.submit("vandal")).outcome == "done"
    after = node.end_of(node.submit("surroundings")).outcome
    differing = {name for name, fact in before.items() if fact != after[name]}
    assert differing == {"descriptors"}  # each has its own log, and nothing more
    logs = [set(found["descriptors"]) for found in (before, after)]
    assert [len([name for name in found if name.endswith(".log")]) for found in logs] == [1, 1]


def test_a_task_that_fills_a_disk_fails_alone(place: Supervised, small_disk: Callable[[str], Path]):
    """As any full /tmp: its own write fails, and the node's directories lie elsewhere."""
    disk = small_disk("tmp")
    node = start(place)
    task: Any = node.end_of(node.submit("fills.the.disk", path=str(disk / "file")))
    assert (task.failure.kind, task.failure.cause) == ("exception", "OSError")
    assert "No space left" in task.failure.message
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_a_worker_that_never_reads_does_not_hold_the_supervisor(place: Supervised):
    """Its channel is full of pauses and resumes: the stop behind them is by signals."""
    node = start(place)
    task_id = node.begun("deaf")
    for _ in range(TURNS):
        node.client.pause(task_id)
        node.client.resume(task_id)
    node.client.stop(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.forced) == (S.STOPPED, True)
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
