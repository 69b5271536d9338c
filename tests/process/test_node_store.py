"""A node whose store is away, forgetful, or written by somebody else."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest
from node_bench import LIMIT, InProcess, S, is_alive, reap, seconds, wait_until
from node_store import Fickle

from chong.store.errors import Refused, StoreUnavailable, UniqueKeyTaken
from chong.store.model import TaskSnapshot, Transition
from chong.store.specimens import queued, request
from chong.supervisor import node as node_module
from chong.supervisor import term
from chong.supervisor.submission import Submission
from chong.supervisor.ticker import Ticker

QUIET = [S.QUEUED, S.STARTING, S.RUNNING, S.SUCCEEDED]


@pytest.fixture
def fickle(bench: InProcess) -> Fickle:
    return Fickle(bench.store)


def release(node: InProcess) -> None:
    (node.root / "open").touch()


def assert_chained(node: InProcess, task_id: str) -> None:
    """No gap, nothing doubled: every transition begins where the one before ended."""
    moves = node.store.history(task_id)
    assert [move.version for move in moves] == list(range(1, len(moves) + 1))
    assert [move.source for move in moves] == [None, *[move.target for move in moves[:-1]]]
    assert [move.at for move in moves] == sorted(move.at for move in moves)
    assert len({move.event_id for move in moves}) == len(moves)


def test_a_task_runs_on_while_the_store_is_away(bench: InProcess, fickle: Fickle):
    """Its end, which came meanwhile, is stored when the store is back, with the time at which it was."""
    node = bench.start(fickle)
    task_id = node.begun("until", path=str(node.root / "open"))
    fickle.is_away = True
    release(node)
    ended = node.wait_for_word(task_id, "end")["at"]
    before = fickle.failed
    wait_until(lambda: fickle.failed > before + 6, "tries to store its end")
    assert node.task(task_id).status is S.RUNNING
    fickle.is_away = False
    task = node.end_of(task_id)
    assert (task.status, node.trail(task_id)) == (S.SUCCEEDED, QUIET)
    assert (
        abs(task.ended_at.timestamp() - ended)
        < 1
        < seconds(task.ended_at, node.moment(task_id, S.SUCCEEDED).stored_at) + 1
    )


def test_work_is_accepted_but_not_started_without_a_store(bench: InProcess, fickle: Fickle):
    """It is on the node's disk; it starts once its attempt can be stored."""
    node = bench.start(fickle)
    node.run("noop")
    fickle.is_away = True
    ids = node.submit_all("noop", 5)
    renewed = fickle.calls["renew"]
    wait_until(lambda: fickle.calls["renew"] > renewed + 1, "a while without a store")
    assert ids == [task_id for task_id, row in node.spooled("submissions").items() if not row["ended_at"]]
    assert [entry for entry in node.journal() if entry["id"] in ids] == []
    fickle.is_away = False
    node.ends_of(ids)
    assert sorted(entry["id"] for entry in node.journal()[1:]) == sorted(ids)
    for task_id in ids:
        assert_chained(node, task_id)


def test_a_first_start_that_fails_when_the_store_knows_the_node_keeps_its_name(
    bench: InProcess, monkeypatch: pytest.MonkeyPatch
):
    """Under another id the next one would be taken for another node of the same name, and refused."""

    start = Ticker.start

    def fail(ticker: Ticker) -> None:
        if ticker._thread.name == "chong-leases":
            raise RuntimeError("can't start new thread")
        start(ticker)

    with monkeypatch.context() as patched:
        patched.setattr(Ticker, "start", fail)
        with pytest.raises(RuntimeError):
            bench.start()
    (node,) = bench.store.nodes()
    assert node.is_live
    assert bench.start().run("noop").status is S.SUCCEEDED
    assert [known.node_id for known in bench.store.nodes()] == [node.node_id]


def test_an_idle_node_knows_of_an_outage(bench: InProcess, fickle: Fickle):
    """It writes nothing, but it renews and looks for commands."""
    outage = bench.start(fickle).controller._term.node.outage
    wait_until(lambda: fickle.calls["claim_commands"], "a node at work")
    fickle.is_away = True
    wait_until(lambda: outage.is_on, "its notice")
    fickle.is_away = False
    wait_until(lambda: not outage.is_on, "the end of the outage")


def test_a_term_waits_for_its_store(bench: InProcess, fickle: Fickle):
    """It starts without one, and works as soon as there is one."""
    fickle.is_away = True
    node = bench.start(fickle)
    fickle.is_away = False
    assert node.run("noop").status is S.SUCCEEDED


def test_lost_replies_change_nothing(bench: InProcess, fickle: Fickle):
    """Every other reply to every kind of write is lost: each write is repeated, and finds its own trace."""
    node = bench.start(fickle)
    fickle.lose_replies = frozenset({"save_many", "append", "touch", "complete_command", "renew"})
    ids = [*node.submit_all("noop", 4), node.submit("hold", seconds=0.3), node.submit("end", how="os._exit(7)")]
    stopped = node.begun("hold")
    node.controller.stop(stopped)
    tasks = node.ends_of([*ids, stopped])
    assert [task.status for task in tasks] == [S.SUCCEEDED] * 5 + [S.FAILED, S.STOPPED]
    assert fickle.lost["save_many"] >= 3
    for task in tasks:
        assert_chained(node, task.id)
    assert node.controller.desynced_tasks == {}
    assert sorted(entry["id"] for entry in node.journal("begin")) == sorted(task.id for task in tasks)


def test_a_task_that_cannot_be_read_hides_no_other_that_was_taken(bench: InProcess):
    """Nobody knows whose it is now, so its run goes on; the other one's ends, as it was called lost."""
    node = bench.start()
    unread, taken = sorted(node.begun("hold") for _ in range(2))
    with closing(sqlite3.connect(node.paths.default_store, isolation_level=None)) as other:
        other.execute("UPDATE tasks SET status = 'lost', version = version + 1, ended_at = status_changed_at")
        other.execute("UPDATE tasks SET tags = 'nonsense' WHERE id = ?", [unread])
        other.execute("DELETE FROM leases")
        wait_until(lambda: node.controller.desynced_tasks.keys() == {taken}, "its word that the one was taken")
        wait_until(lambda: len(node.workers()) == 1, "the end of that one's worker")
        other.execute("UPDATE tasks SET tags = '[]'")
    wait_until(lambda: not node.workers(), "the end of the other one's")


def test_a_command_in_a_short_outage_is_obeyed(bench: InProcess, fickle: Fickle):
    """It was stored; the poll that fetches it comes later."""
    node = bench.start(fickle)
    task_id = node.begun("hold")
    fickle.is_away = True
    with pytest.raises(StoreUnavailable):
        node.controller.stop(task_id)
    fickle.is_away = False
    node.controller.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED


def another_writer(node: InProcess, task_id: str, target: S, **facts) -> None:
    """Somebody with the lease's name writes the task."""
    task = node.task(task_id)
    now = datetime.now(UTC)
    moved = replace(task, status=target, version=task.version + 1, status_changed_at=now, **facts)
    move = Transition(
        task_id=task_id, version=moved.version, source=task.status, target=target,
        at=now, actor="somebody", event_id="somebody.else",
    )  # fmt: skip
    node.store.save(moved, [move], expect_version=task.version)


def test_a_second_writer_ends_the_run_here(node: InProcess):
    """What they wrote stays; our run is ended, and its outcome is a note."""
    task_id = node.begun("hold")
    pid = node.worker_of(task_id)
    another_writer(node, task_id, S.FAILED, ended_at=datetime.now(UTC))
    note = node.wait_for_note(task_id, "late_result")
    assert "attempt 1 ended" in note.detail
    assert not is_alive(pid)
    assert node.trail(task_id)[-1] is S.FAILED
    assert node.store.history(task_id)[-1].actor == "somebody"
    assert list(node.controller.desynced_tasks) == [task_id]


def test_a_conflicting_write_is_never_repeated(node: InProcess):
    """A stop that meets another's version desyncs that task, and the node works on."""
    task_id = node.begun("hold")
    another_writer(node, task_id, S.PAUSING)
    node.controller.stop(task_id)
    node.wait_for_note(task_id, "late_result")
    assert node.task(task_id).status is S.PAUSING
    assert node.run("noop").status is S.SUCCEEDED
    wait_until(lambda: node.controller.running == 0, "its slot")


def test_a_judged_run_is_ended(bench: InProcess):
    """Its lease was past by the store, and somebody called it lost: the worker does not live on."""
    node = bench.start()
    task_id = node.begun("hold")
    pid = node.worker_of(task_id)
    another_writer(node, task_id, S.LOST, ended_at=datetime.now(UTC))
    wait_until(lambda: not is_alive(pid), "the worker's end", 10)
    node.wait_for_note(task_id, "late_result")
    assert node.task(task_id).status is S.LOST


def test_a_result_outlives_a_term_that_could_not_store_it(
    bench: InProcess, fickle: Fickle, monkeypatch: pytest.MonkeyPatch
):
    """The node is closed while the store is away; the next term tells how the run ended."""
    monkeypatch.setattr(term, "FLUSH_SECONDS", 0.3)
    monkeypatch.setattr(term, "CLOSE_SECONDS", 1.0)
    node = bench.start(fickle)
    task_id = node.begun("until", path=str(node.root / "open"))
    fickle.is_away = True
    release(node)
    node.wait_for_word(task_id, "end")
    wait_until(lambda: node.workers() == [], "the worker's end")
    forkserver = node.forkserver()
    node.close()
    fickle.is_away = False
    task = bench.start().end_of(task_id)
    assert (task.status, task.outcome) == (S.SUCCEEDED, "released")
    node.close()
    reap([forkserver])  # the first term's child, and that term is still this process


def test_a_repeated_submission_hears_what_the_first_one_hears(bench: InProcess, fickle: Fickle):
    """Not "accepted" while the store has yet to say whether its unique key is free."""
    node = bench.start(fickle)
    node.submit("hold", unique_key="one")
    fickle.is_away = True
    submission = Submission(name="noop", unique_key="one")
    heard: SimpleQueue[object] = SimpleQueue()
    inner = node.controller._term
    for _ in range(2):
        inner.loop.call(partial(inner.node.intake.submit, submission, heard.put))
    wait_until(lambda: fickle.failed > 0, "an attempt to store it")
    assert heard.empty()
    fickle.is_away = False
    assert [type(heard.get(timeout=20)) for _ in range(2)] == [UniqueKeyTaken, UniqueKeyTaken]


def test_an_answer_that_the_store_refuses_costs_the_answer_alone(bench: InProcess, fickle: Fickle):
    """To a request for a task that has ended, and to a repeated submission of it."""
    node = bench.start(fickle)
    inner = node.controller._term
    ended = node.run("noop")
    fickle.refuses = frozenset({"complete_command", "get"})
    inner.loop.call(partial(inner.node.commands, [request(1, ended)]))
    heard: SimpleQueue[object] = SimpleQueue()
    again = partial(inner.node.intake.submit, Submission(name="noop", id=ended.id), heard.put)
    wait_until(lambda: inner.thread.call(lambda: ended.id not in inner.node.tasks), "its end here")
    inner.loop.call(again)
    assert isinstance(heard.get(timeout=20), Refused)
    wait_until(lambda: fickle.calls["get"] >= 2, "both looks")
    fickle.refuses = frozenset({"complete_command"})
    inner.loop.call(partial(inner.node.commands, [request(2, ended)]))
    wait_until(lambda: fickle.calls["complete_command"], "the end of the request")
    fickle.refuses = frozenset()
    assert node.run("noop").status is S.SUCCEEDED


def test_requests_for_others_tasks_keep_no_save_waiting(bench: InProcess, monkeypatch: pytest.MonkeyPatch):
    """There may be thousands of them in each look: what the node has to store waits for one at most."""
    calls: list[str] = []
    gate = threading.Event()
    save_many = bench.store.save_many

    def get(_: str) -> None:
        calls.append("get")
        assert gate.wait(LIMIT)

    def save(*args: Any, **facts: Any) -> Any:
        calls.append("save")
        return save_many(*args, **facts)

    node = bench.start()
    inner = node.controller._term
    monkeypatch.setattr(bench.store, "get", get)
    monkeypatch.setattr(bench.store, "save_many", save)
    strangers = [request(number, queued(404)) for number in range(50)]
    inner.loop.call(partial(inner.node.commands, strangers))
    heard: SimpleQueue[object] = SimpleQueue()
    inner.loop.call(partial(inner.node.intake.submit, Submission(name="noop"), heard.put))
    wait_until(lambda: inner.thread.call(lambda: inner.node.courier._busy), "a save that waits")
    gate.set()
    assert isinstance(heard.get(timeout=LIMIT), TaskSnapshot)
    assert calls[:2] == ["get", "save"]
    wait_until(lambda: calls.count("get") == len(strangers), "all answers")


def test_what_is_told_of_second_writers_has_a_bound(node: InProcess, monkeypatch: pytest.MonkeyPatch):
    """A node may live for years beside somebody who writes its tasks; the newest are told."""
    assert node_module.DESYNCED_KEPT == 1000
    monkeypatch.setattr(node_module, "DESYNCED_KEPT", 2)
    inner = node.controller._term
    for task_id in "abac":
        inner.thread.call(partial(inner.node.desync, task_id, "as the test wants it"))
    assert list(node.controller.desynced_tasks) == ["a", "c"]


def test_an_end_behind_a_first_contact_that_has_failed_is_known_to_the_store(bench: InProcess):
    """The outage came right behind the registration, took the note of its end with it, and is over at the end."""
    store = Fickle(bench.store)
    store.is_away = True
    beginning = bench.start(store).controller._term
    failed = threading.Event()

    def fail(*_: Any) -> None:
        raise StoreUnavailable("away")

    def fail_at_last(*_: Any) -> None:
        failed.set()
        wait_until(lambda: beginning._is_ending, "the end")
        store.end_term = bench.store.end_term
        raise StoreUnavailable("away")

    store.declare_buckets, store.end_term = fail, fail_at_last
    store.is_away = False
    assert failed.wait(LIMIT)
    bench.controller.close()
    assert [(node.term, node.is_live) for node in bench.store.nodes()] == [(beginning.name, False)]


def test_an_end_while_the_store_is_first_met_is_known_to_it(bench: InProcess):
    """The node is registered in the same moment, and would be taken for live until its lease is over."""
    store = Fickle(bench.store)
    store.is_away = True
    beginning = bench.start(store).controller._term
    registered = threading.Event()

    def declare_late(*facts: Any) -> None:
        registered.set()
        wait_until(lambda: beginning._is_ending, "the end")
        bench.store.declare_buckets(*facts)

    store.declare_buckets = declare_late
    store.is_away = False
    assert registered.wait(LIMIT)
    bench.controller.close()
    assert [(node.term, node.is_live) for node in bench.store.nodes()] == [(beginning.name, False)]
