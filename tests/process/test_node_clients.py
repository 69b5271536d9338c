"""Programs on the node's machine submit, wait and stop over its socket."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from node_bench import LIMIT, InProcess, S, wait_until
from node_store import Fickle

from chong.store.ids import new_id
from chong.store.specimens import queued, step
from chong.supervisor.control import MAX_CALLERS
from chong.supervisor.inquiries import LIMIT as MOST
from chong.worker import client as c


def of(node: InProcess) -> c.Client:
    return c.Client(runtime_dir=node.paths.runtime, issued_by="billing@host")


def meanwhile(call: Callable[[], Any]) -> Future[Any]:
    """What a call of another thread comes to."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def waiting(node: InProcess) -> int:
    return len(node.controller._term.node.inquiries)


def wait_for_waiting(node: InProcess, count: int) -> None:
    wait_until(lambda: waiting(node) == count, f"{count} that wait")


def open_task(node: InProcess, client: c.Client) -> str:
    """One that runs until `release`."""
    task_id = client.submit("until", params={"path": str(node.root / "open")})
    node.wait_for(task_id, S.RUNNING)
    return task_id


def release(node: InProcess) -> None:
    (node.root / "open").touch()


class TestResults:
    def test_a_result_comes_back(self, shared: InProcess):
        """With what was given; it is on record as an event, and a later call hears the same."""
        client = of(shared)
        task_id = client.submit("echo", key="acme", params={"text": "härlich"})
        assert client.result(task_id)["length"] == 7
        outcome = client.wait(task_id)
        assert (outcome.status, outcome.key, outcome.attempt) == ("succeeded", "acme", 1)
        assert (outcome, outcome.result["length"]) == (client.get(task_id), 7)
        assert shared.task(task_id).trigger == "event"

    def test_many_are_waited_for_in_one_event_loop(self, shared: InProcess):
        """Each has its own result, also one that is larger than a frame."""

        async def run() -> list[Any]:
            client = c.AsyncClient(runtime_dir=shared.paths.runtime)
            sizes = [10, 200_000, *range(20)]
            ids = await asyncio.gather(*(client.submit("result", params={"size": size}) for size in sizes))
            results = await asyncio.gather(*(client.result(task_id) for task_id in ids))
            return [len(text) - size for text, size in zip(results, sizes, strict=True)]

        assert asyncio.run(run()) == [0] * 22

    def test_a_failure_is_raised_with_its_reason(self, shared: InProcess):
        """Its class says that it failed, its text why, and it carries the whole outcome."""
        client = of(shared)
        task_id = client.submit("end", params={"how": "sys.exit(text)"})
        with pytest.raises(c.TaskFailed, match=r"\(end\) failed: exception SystemExit: no way") as failed:
            client.result(task_id)
        assert failed.value.outcome.failure.cause == "SystemExit"

    def test_the_same_submission_runs_once(self, shared: InProcess):
        """Whoever sends it again, also after its end, hears of the first one."""
        client = of(shared)
        task_id = new_id()
        for _ in range(3):
            assert client.submit("noop", id=task_id) == task_id
            assert client.result(task_id) == 1
        assert [entry["id"] for entry in shared.journal("begin")].count(task_id) == 1

    def test_what_is_wrong_has_its_own_error(self, shared: InProcess):
        """Wrong as it stands, unknown, or refused; each text is one line with what was expected."""
        client = of(shared)
        wrong = [
            ({"params": {"text": {1, 2}}}, c.RequestInvalid, 'parameters["text"]: expected a JSON value, got set'),
            ({"params": {"text": "x" * 300_000}}, c.RequestInvalid, "expected at most 262144 bytes"),
            ({"uniqe": "a"}, c.RequestInvalid, "got 'uniqe', did you mean unique?"),
            ({"key": "\n"}, c.RequestInvalid, "key: expected no control characters"),
            ({"params": {"test": "x"}}, c.Refused, "test"),
        ]
        for wish, kind, words in wrong:
            with pytest.raises(kind) as refused:
                client.submit("echo", **wish)
            assert words in str(refused.value)
            assert "\n" not in str(refused.value)
        with pytest.raises(c.UnknownTask, match="ecko"):
            client.submit("ecko")
        for ask in (client.get, client.wait, client.stop):
            with pytest.raises(c.UnknownTask, match=r"no task has the id 0"):
                ask(f"0{new_id()[1:]}")
            with pytest.raises(c.RequestInvalid, match="id: expected a lower-case UUID"):
                ask("9a1b")

    def test_a_taken_unique_key_has_its_own_error(self, node: InProcess):
        """Until its holder is over."""
        client = of(node)
        held = client.submit("until", unique="nightly", params={"path": str(node.root / "open")})
        with pytest.raises(c.UniqueKeyTaken, match=held):
            client.submit("noop", unique="nightly")
        release(node)
        client.wait(held)
        assert client.result(client.submit("noop", unique="nightly")) == 1

    def test_nobody_listens(self, shared: InProcess):
        """That is told at once."""
        for ask in (lambda client: client.get(new_id()), lambda client: client.submit("noop")):
            with pytest.raises(c.NodeUnreachable, match="no supervisor answers at"):
                ask(c.Client(runtime_dir=shared.root / "nowhere"))


class TestWaiting:
    def test_an_open_task_is_waited_for_without_a_look_at_the_store(self, bench: InProcess):
        """However many wait; and all hear of its end."""
        store = Fickle(bench.store)
        node = bench.start(store)
        client = of(node)
        task_id = open_task(node, client)
        before = store.calls["get"]
        ends = [meanwhile(lambda: client.wait(task_id)) for _ in range(20)]
        wait_for_waiting(node, 20)
        with pytest.raises(c.NotEnded, match=r"expected its end within 0.2 s"):
            client.wait(task_id, timeout=0.2)
        with pytest.raises(TimeoutError):
            asyncio.run(c.AsyncClient(runtime_dir=node.paths.runtime).wait(task_id, timeout=0.2))
        wait_for_waiting(node, 20)
        release(node)
        assert {end.result(LIMIT).result for end in ends} == {"released"}
        assert (store.calls["get"], waiting(node)) == (before, 0)

    def test_an_outage_does_not_lose_who_waits(self, bench: InProcess):
        """For what runs, and for what the store alone knows; an end is told when it is stored."""
        store = Fickle(bench.store)
        node = bench.start(store)
        client = of(node)
        old = client.submit("noop")
        client.wait(old)
        task_id = open_task(node, client)
        store.is_away = True
        ends = [meanwhile(lambda each=each: client.wait(each)) for each in (task_id, old)]
        wait_for_waiting(node, 2)
        release(node)
        node.wait_for_word(task_id, "end")
        failed = store.failed
        wait_until(lambda: store.failed > failed + 6, "tries to store the end")
        assert [end.done() for end in ends] == [False, False]
        store.is_away = False
        assert [end.result(LIMIT).status for end in ends] == ["succeeded"] * 2
        assert node.task(task_id).status is S.SUCCEEDED

    def test_so_many_may_wait_and_who_goes_is_forgotten(self, shared: InProcess):
        """One more is refused by a text that names the bound, and everything else goes on."""
        assert MOST < MAX_CALLERS
        client = of(shared)
        task_id = client.submit("hold")
        asked = json.dumps({"op": "wait", "id": task_id}).encode() + b"\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.connect(str(shared.paths.control))
            caller.sendall(asked * MOST)
            wait_for_waiting(shared, MOST)
            with pytest.raises(c.Refused, match=f"expected fewer than {MOST} at one time"):
                client.wait(task_id)
            assert shared.run("noop").status is S.SUCCEEDED
        wait_for_waiting(shared, 0)
        assert client.stop(task_id, wait=True).status == "stopped"

    def test_a_task_of_another_node_is_not_waited_for(self, shared: InProcess):
        """Its state is told; who may wait for it is said."""
        task = queued(node="node-b")
        shared.store.save(task, [step(None, task)], expect_version=0)
        client = of(shared)
        assert client.get(task.id).facts["node"] == "node-b"
        with pytest.raises(c.Refused, match=r"expected a task of node node-a: .* queued on node node-b"):
            client.wait(task.id)
        client.stop(task.id, reason="not here")
        (command,) = shared.store.commands(task.id)
        assert (command.issued_by, command.reason) == ("billing@host", "not here")


class TestStops:
    def test_a_stop_is_on_record_with_who_asked(self, shared: InProcess):
        """It is stored when it is answered, and its result is an error that says by whom."""
        client = of(shared)
        task_id = client.submit("hold")
        shared.wait_for_word(task_id)
        asked = client.stop(task_id, reason="a new price list")
        assert asked.stopped_by == "billing@host"
        assert shared.moment(task_id, S.STOPPING).actor == "billing@host"
        with pytest.raises(c.TaskWasStopped, match="asked by billing@host: a new price list"):
            client.result(task_id)
        again = client.stop(task_id, reason="again", wait=True)
        assert (again.status, again.stop_reason) == ("stopped", "a new price list")

    def test_what_waits_is_cancelled_at_once_also_without_the_store(self, bench: InProcess):
        """Whoever asked does not wait for the store; the end is told when that is back."""
        store = Fickle(bench.store)
        node = bench.start(store, max_parallel=1)
        client = of(node)
        open_task(node, client)
        task_id = client.submit("noop")
        store.is_away = True
        assert client.stop(task_id, timeout=LIMIT).status == "cancelled"
        end = meanwhile(lambda: client.result(task_id))
        wait_for_waiting(node, 1)
        store.is_away = False
        with pytest.raises(c.TaskCancelled):
            end.result(LIMIT)
        assert node.trail(task_id) == [S.QUEUED, S.CANCELLED]
        release(node)


def test_who_waits_for_a_task_that_another_writer_took_hears_of_its_end(bench: InProcess):
    """It leaves the node's hands without an end of its own, so the store is asked until it has one."""
    node = bench.start()
    client = of(node)
    task_id = open_task(node, client)
    end = meanwhile(lambda: client.wait(task_id))
    wait_for_waiting(node, 1)
    found = node.task(task_id)
    lost = replace(found, status=S.LOST, version=found.version + 1)
    move = replace(
        node.store.history(task_id)[-1],
        version=lost.version,
        source=found.status,
        target=S.LOST,
        event_id=f"{task_id}.by-hand",
    )
    node.store.save(lost, [move], expect_version=found.version)
    assert end.result(LIMIT).status == "lost"
    with pytest.raises(c.TaskLost):
        client.result(task_id)
