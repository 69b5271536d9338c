"""What a node has accepted, and what it has to tell, outlives its processes, its store's absence and its own past."""

import contextlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator

import pytest
from node_bench import S, Supervised, wait_until

from chong.store.buckets import BucketPolicy
from chong.supervisor.unsent import from_text

LEASE = 60.0
"""Nobody's lease runs out meanwhile."""


@contextlib.contextmanager
def outage(node: Supervised) -> Iterator[None]:
    """The store can be read, and takes nothing."""
    with contextlib.closing(sqlite3.connect(node.paths.default_store, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        yield


def kill_all(node: Supervised) -> None:
    """As a loss of power: nobody is left who could tell anything."""
    for pid in [node.supervisor.pid, *node.forkservers(), *node.workers()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.supervisor.wait()
    wait_until(lambda: not node.processes(), "the end of all processes")


def unsent(node: Supervised) -> dict[str, S]:
    """The newest state of each task that the spool keeps for the store."""
    writes = [from_text(id_, row["content"]).write for id_, row in node.spooled("unsent").items()]
    return {write.snapshot.id: write.snapshot.status for write in writes if hasattr(write, "snapshot")}


def check_trail(node: Supervised, task_id: str) -> None:
    steps = node.store.history(task_id)
    assert [step.source for step in steps] == [None, *(step.target for step in steps[:-1])]


def test_what_happened_in_an_outage_is_told_by_the_next_term(place: Supervised):
    """Ends, and work that was accepted meanwhile: supervisor, forkserver and workers are gone, the disk knows."""
    node = place.start(lease=LEASE)
    ends = [node.begun("until", path=str(node.root / "open")) for _ in range(3)]
    lives = node.begun("until", path=str(node.root / "never"))
    with outage(node):
        (node.root / "open").touch()
        accepted = [node.submit("noop") for _ in range(3)]
        # What was accepted is ready to start, once that is stored.
        told = dict.fromkeys(ends, S.SUCCEEDED) | dict.fromkeys(accepted, S.STARTING)
        wait_until(lambda: unsent(node) == told, "the spool")
        kill_all(node)
    node.start(lease=LEASE)
    assert {task.status for task in node.ends_of(ends)} == {S.SUCCEEDED}
    assert {task.status for task in node.ends_of(accepted)} == {S.SUCCEEDED}
    assert node.end_of(lives).status is S.LOST
    for task_id in (*ends, *accepted, lives):
        check_trail(node, task_id)
        assert [entry["id"] for entry in node.journal("begin")].count(task_id) == 1
    wait_until(lambda: node.spooled("unsent") == {}, "an empty outbox")
    assert node.events("outbox_replayed")[-1]["refused"] == 0


def test_an_end_that_is_told_too_late_is_a_note(place: Supervised):
    """Somebody has spoken for the task meanwhile: that stands, and the disk's word is kept beside it."""
    node = place.start(lease=3)
    task_id = node.begun("until", path=str(node.root / "open"))
    with outage(node):
        (node.root / "open").touch()
        wait_until(lambda: unsent(node) == {task_id: S.SUCCEEDED}, "the spool")
        kill_all(node)
    assert node.cli("reconcile").code == 0
    assert node.task(task_id).status is S.LOST
    node.start()
    assert "succeeded, was not stored in time: the task is lost" in node.wait_for_note(task_id, "late_result").detail
    assert node.task(task_id).status is S.LOST
    wait_until(lambda: node.spooled("unsent") == {}, "an empty outbox")


def test_after_an_outage_the_spool_is_emptied_by_the_same_term(place: Supervised):
    """A stop that came meanwhile, too; nothing is told twice."""
    node = place.start(lease=LEASE)
    task_id = node.begun("until", path=str(node.root / "open"))
    with outage(node):
        (node.root / "open").touch()
        wait_until(lambda: unsent(node), "the spool")
    assert node.end_of(task_id).status is S.SUCCEEDED
    wait_until(lambda: node.spooled("unsent") == {}, "an empty outbox")
    check_trail(node, task_id)


def test_work_of_a_bucket_that_is_no_longer_owned_stays_with_its_node(place: Supervised):
    """It was accepted, and nobody else has its parameters: the next term runs it, whatever it owns."""
    key = next(key for key in map(str, range(1000)) if BucketPolicy(64).bucket_of(key) < 32)
    node = place.start("--num-buckets", "64", "--owned-buckets", "0-31", lease=LEASE)
    holder = node.begun("until", key=key, path=str(node.root / "open"))
    with outage(node):
        task_id = node.submit("noop", key=key)
        wait_until(lambda: task_id in node.spooled("submissions"), "the spool")
        kill_all(node)
        with contextlib.closing(sqlite3.connect(node.paths.spool, isolation_level=None)) as spool:
            spool.execute("DELETE FROM unsent")  # as if the power had gone before
    node.start("--num-buckets", "64", "--owned-buckets", "32-63", lease=LEASE)
    task = node.end_of(task_id)
    assert (task.status, task.bucket) == (S.SUCCEEDED, BucketPolicy(64).bucket_of(key))
    assert node.end_of(holder).status is S.LOST


@pytest.mark.parametrize("met", ["once more", "never"])
def test_a_restored_state_directory_runs_nothing_again(place: Supervised, met: str):
    """Its work has run and was forgotten since: what the store does not know is told, and left to people."""
    node = place.start(lease=LEASE)
    with outage(node):
        task_id = node.submit("noop")
        wait_until(lambda: task_id in unsent(node), "the spool")
        kill_all(node)
        copy = node.root / "copy"
        copy.mkdir()
        for part in node.state.glob("spool.db*"):
            shutil.copy(part, copy)
    node.start(lease=LEASE)
    assert node.end_of(task_id).status is S.SUCCEEDED
    if met == "once more":
        assert node.terminate() == 0
        node.start(lease=LEASE)
    assert node.terminate() == 0
    with contextlib.closing(sqlite3.connect(node.paths.default_store, isolation_level=None)) as store:
        for table in ("transitions", "tasks"):
            column = "id" if table == "tasks" else "task_id"
            assert store.execute(f"DELETE FROM {table} WHERE {column} = ?", (task_id,)).rowcount > 0
    for part in node.state.glob("spool.db*"):
        part.unlink()
    for part in copy.glob("spool.db*"):
        shutil.copy(part, node.state)
    for log in node.paths.logs.glob(f"{task_id}.*"):
        log.unlink()
    for _ in range(2):  # the term after it as well
        node.start(lease=LEASE)
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
        assert node.terminate() == 0
        assert node.events("store_went_back")[-1]["task"] == task_id
    assert len(node.events("spool_behind")) == 1
    assert [entry["id"] for entry in node.journal("begin")].count(task_id) == 1
    node.start(lease=LEASE)
    assert node.cli("rerun", task_id, "--wait").code == 0
    complaints = len(node.events("store_went_back"))
    assert node.terminate() == 0
    node.start(lease=LEASE)
    assert len(node.events("store_went_back")) == complaints


def test_a_task_that_is_over_is_run_once_more_with_its_parameters(place: Supervised):
    """Also when it was called lost, and by another term; what may still run is refused in one line."""
    node = place.start(lease=LEASE)
    first = node.submit("echo", text="größe")
    lost = node.begun("until", path=str(node.root / "open"))
    assert node.end_of(first).status is S.SUCCEEDED
    said = node.cli("rerun", lost)
    assert (said.code, said.err) == (1, f"chong: task {lost} (until): expected one that is over, it is running\n")
    kill_all(node)
    node.start(lease=LEASE)
    assert node.end_of(lost).status is S.LOST
    said = node.cli("rerun", first[-8:], "--wait", "--json")
    assert (said.code, said.err) == (0, "")
    again = said.json
    assert (again["outcome"], again["trigger"]) == (node.task(first).outcome, f"rerun {first}")
    assert again["id"] != first
    (node.root / "open").touch()
    said = node.cli("rerun", lost)
    assert node.end_of(said.out.strip()).status is S.SUCCEEDED
    said = node.cli("rerun", again["id"][:-1] + ("0" if again["id"][-1] != "0" else "1"))
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "its parameters are not on node node-a, or were let go of since its end" in said.err
