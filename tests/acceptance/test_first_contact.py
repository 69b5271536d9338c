"""A term that ends before it has met the store: what runs is not its own yet, and is left to the next one."""

import os
import signal
import sqlite3
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from node_bench import S, Supervised, is_alive, wait_until

REFUSED = {
    "a namesake": ("UPDATE nodes SET node_id = 'other', seen_at = {now}, ttl = 60000000", 2),
    "a row that cannot be read": ("UPDATE tasks SET tags = 'nonsense'", 1),
}
MENDED = {
    "a namesake": "UPDATE nodes SET ttl = 1",
    "a row that cannot be read": "UPDATE tasks SET tags = '[]'",
}


def tamper(node: Supervised, statement: str) -> None:
    with sqlite3.connect(node.database or node.paths.default_store) as db:
        db.execute(statement.format(now=int(time.time() * 1e6)))
    db.close()


@pytest.mark.parametrize("what", REFUSED)
def test_a_start_that_fails_leaves_what_runs_to_the_next_one(place: Supervised, what):
    """It had attached already; the run goes on in its process, and the next good start takes it over."""
    node = place.start(lease=30)
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    node.kill()
    statement, code = REFUSED[what]
    tamper(node, statement)
    began = time.monotonic()
    node.start(lease=30, wait=False)
    assert node.supervisor.wait(20) == code
    assert time.monotonic() - began < 8
    assert is_alive(pid)
    assert [(event["runs"], len(event["generations"])) for event in node.events("runs_left")] == [(1, 1)]
    assert [row.is_live for row in node.store.nodes()] == [what == "a namesake"]
    tamper(node, MENDED[what])
    node.start(lease=30)
    assert node.worker_of(task_id) == pid
    assert node.cli("stop", task_id).code == 0
    task = node.end_of(task_id)
    assert (task.status, task.forced, task.attempt) == (S.STOPPED, False, 1)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (REFUSED["a namesake"][0], 2, "give this one another --node"),
        ("UPDATE terms SET started_at = 'noon'", 1, "column started_at: expected a time"),
    ],
    ids=["a namesake", "a row that cannot be read"],
)
def test_a_first_start_that_is_refused_leaves_no_name_behind(place: Supervised, change, code, said):
    """So its advice can be followed: the same state directory starts under another name."""
    database = place.elsewhere()
    node = place.start("--db", str(database))
    node.kill()
    tamper(node, change)
    node.paths.identity.unlink()
    node.start("--db", str(database), wait=False)
    assert node.supervisor.wait(20) == code
    assert said in node.log().splitlines()[-1]
    assert not node.paths.identity.exists()
    node.start("--db", str(database), "--node", "node-b")
    assert node.terminate() == 0


def test_a_first_start_that_fails_behind_an_outage_leaves_no_name_behind(place: Supervised):
    """It waits for the store first, and what it finds there then is no less a reason for another name."""
    database = place.elsewhere()
    node = place.start("--db", str(database))
    assert node.terminate() == 0
    node.paths.identity.unlink()
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    node.start("--db", str(database), wait=False)
    wait_until(lambda: node.events("waiting_for_store"), "its word that it waits")
    assert node.paths.identity.exists()
    lock.execute("UPDATE terms SET started_at = 'noon'")
    lock.execute("COMMIT")
    lock.close()
    assert node.supervisor.wait(20) == 1
    assert not node.paths.identity.exists()


def test_a_refused_start_of_a_known_node_keeps_its_name(place: Supervised):
    """It was pinned by a start that the store had accepted."""
    node = place.start()
    node.kill()
    pinned = node.paths.identity.read_bytes()
    tamper(node, REFUSED["a namesake"][0])
    node.start(wait=False)
    assert node.supervisor.wait(20) == 2
    assert node.paths.identity.read_bytes() == pinned


def test_a_node_ends_when_a_namesake_has_taken_its_place(place: Supervised):
    """Registered at the same moment, or while it was cut off; what runs is left, and the other's row is not touched."""
    node = place.start(lease=30)
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    [row] = node.store.nodes()
    [term] = node.store.terms("node-a")
    other = replace(row, node_id="another", term="node-a.other", host="elsewhere")
    node.store.register_term(replace(term, term=other.term, node_id=other.node_id), other)
    assert node.supervisor.wait(20) == 2
    assert "expected a name of its own, another state directory uses it on elsewhere" in node.log()
    assert [(found.term, found.is_live) for found in node.store.nodes()] == [(other.term, True)]
    assert is_alive(pid)
    tamper(node, MENDED["a namesake"])
    node.start(lease=30)
    assert node.worker_of(task_id) == pid
    assert node.cli("stop", task_id).code == 0
    assert node.end_of(task_id).status is S.STOPPED


def test_a_row_that_cannot_be_read_is_named_in_one_line(place: Supervised):
    """By whoever reads it: its table, its key, its column, and what was expected there."""
    node = place.start()
    task_id = node.submit("noop", key="acme")
    node.end_of(task_id)
    waiting = node.submit("noop")
    node.end_of(waiting)
    assert node.terminate() == 0
    tamper(node, "UPDATE tasks SET status = 'queued', ended_at = NULL, tags = 'nonsense'")
    said = "column tags: expected a JSON list, got 'nonsense'"
    for words, rows in ((("ps",), 2), (("show", task_id), 1)):
        answer = node.cli(*words)
        assert (answer.code, answer.err.count("\n"), answer.err.count(said)) == (1, rows, rows), answer
    node.start(wait=False)
    assert node.supervisor.wait(20) == 1
    [line] = [line for line in node.log().splitlines() if line.startswith("chong-supervisor: ")]
    assert line.endswith(said)
    assert "Traceback" not in node.log()


def test_starts_that_fail_in_a_row_do_not_hold_what_runs_for_ever(place: Supervised):
    """Nobody renews its lease meanwhile; it is ended in the time between them, and its remains tell so."""
    node = place.start(lease=12)
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    node.kill()
    tamper(node, REFUSED["a namesake"][0].replace("60000000", "600000000"))
    for _ in range(40):  # each of them comes well within the hold, all together do not
        node.start(lease=12, wait=False)
        assert node.supervisor.wait(20) == 2
        if not is_alive(pid):
            break
    assert not is_alive(pid)
    tamper(node, MENDED["a namesake"])
    wait_until(lambda: not node.forkservers(), "its remains")
    node.start(lease=12)
    task = node.end_of(task_id)
    assert (task.status, task.failure.kind, task.failure.cause) == (S.FAILED, "crashed", "orphaned")


def test_sigterm_before_the_store_was_met_leaves_what_runs(place: Supervised):
    """Nobody could store how it ended; neither drain nor graces are cut short, the next term takes it over."""
    database = place.elsewhere()
    node = place.start("--db", str(database), "--drain", "30", lease=30)
    task_id = node.begun("hold", seconds=90)
    pid = node.worker_of(task_id)
    node.kill()
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    node.start("--db", str(database), "--drain", "30", lease=30, wait=False)
    wait_until(lambda: node.events("waiting_for_store"), "a term without its store")
    began = time.monotonic()
    assert node.terminate() == 1
    assert time.monotonic() - began < 8
    assert is_alive(pid)
    assert [event["runs"] for event in node.events("runs_left")] == [1]
    assert node.events("draining") == []
    lock.close()
    node.start("--db", str(database), lease=30)
    assert node.worker_of(task_id) == pid
    node.client.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED


def test_sigterm_before_the_store_was_met_ends_as_asked_when_nothing_runs(place: Supervised):
    """There is nothing to hold: no process is left."""
    database = place.elsewhere()
    place.start("--db", str(database)).terminate()
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    node = place.start("--db", str(database), wait=False)
    wait_until(lambda: node.events("waiting_for_store"), "a term without its store")
    assert node.terminate() == 0
    node.check_gone()
    lock.close()


def test_silent_forkservers_cost_no_run_of_another(place: Supervised):
    """Two are stopped; the third one's run goes on, for it is asked beside them and not after them."""
    node = place.start(lease=30)
    ids = [node.begun("hold", seconds=90)]
    for _ in range(2):
        assert node.cli("reload").code == 0
        ids.append(node.begun("hold", seconds=90))
    pid = node.worker_of(ids[-1])
    silent = [parent_of(node.worker_of(task_id)) for task_id in ids[:-1]]
    node.kill()
    for forkserver in silent:
        os.kill(forkserver, signal.SIGSTOP)
    began = time.time()
    node.start(lease=30)
    [attached] = node.events("attached")
    assert datetime.fromisoformat(attached["timestamp"]).timestamp() - began < 10
    assert len(node.events("forkserver_silent")) == 2
    assert node.worker_of(ids[-1]) == pid
    node.client.stop(ids[-1])
    assert node.end_of(ids[-1]).status is S.STOPPED
    for forkserver in silent:
        os.kill(forkserver, signal.SIGKILL)
    wait_until(lambda: node.workers() == [], "the ends of the others' runs")


def test_a_forkserver_that_stays_stopped_is_ended_with_its_runs(place: Supervised):
    """Its own hold time never comes; whoever reads `lost` may rely on that nothing of the run lives any more."""
    node = place.start(lease=6)
    task_id = node.begun("hold", seconds=90)
    worker = node.worker_of(task_id)
    forkserver = parent_of(worker)
    node.kill()
    os.kill(forkserver, signal.SIGSTOP)
    node.start(lease=6)
    task = node.end_of(task_id)
    assert (task.status, task.attempt, is_alive(worker), is_alive(forkserver)) == (S.LOST, 1, False, False)
    assert [event["seconds"] for event in node.events("forkserver_stuck")] == [4.5]
    assert len(node.journal("begin")) == 1


def test_a_forkserver_that_does_not_fork_is_told_as_any_other_that_is_stuck(place: Supervised):
    """One event has one form, whoever found it."""
    node = place.start()
    os.kill(node.forkserver(), signal.SIGSTOP)
    task_id = node.submit("starts.soon")
    [stuck] = wait_until(lambda: node.events("forkserver_stuck"), "a forkserver that is stuck")
    assert (stuck["generation"], stuck["seconds"], "task" in stuck) == (1, 1.0, False)
    assert node.end_of(task_id).status is S.SUCCEEDED


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
