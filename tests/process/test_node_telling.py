"""`on_failure=`: who is told of a failure, when, how often, and over which deaths."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from node_bench import Bench, InProcess, S, Supervised, whole_lines
from waiting import wait_until

from chong.supervisor import failure_calls
from chong.supervisor.failure_calls import FailureCalls, Wish

MODULES = ("node_tasks", "node_telling_tasks")


def told(node: Bench) -> list[dict[str, Any]]:
    return [json.loads(line) for line in whole_lines(node.root / "told")]


def about(node: Bench) -> list[str]:
    """The ids of all that was told, whether as the newest or beside it."""
    return [id_ for message in told(node) for id_ in (*message["ids"], message["task"]["id"])]


def test_a_definitive_failure_is_told_once(bench: InProcess):
    """Neither an attempt that is followed by another one, nor a success, nor a stop."""
    node = bench.start(modules=MODULES)
    stopped = node.begun("told.waiting")
    node.controller.stop(stopped)
    node.end_of(stopped)
    node.run("told.failing", fails=False)
    node.run("told.nobody")
    failed = node.run("told.failing")
    (message,) = wait_until(lambda: told(node), "the call")
    assert (message["event"], message["node"], message["more"], message["ids"]) == ("task_ended_badly", "node-a", 0, [])
    task = message["task"]
    assert (task["id"], task["name"], task["status"], task["attempt"]) == (failed.id, "told.failing", "failed", 2)
    assert task["failure"] == {"kind": "exception", "cause": "ValueError", "message": "secret parameters stay here"}
    assert "params" not in json.dumps(message)
    wait_until(lambda: node.spooled("notices") == {}, "an empty spool")


def test_many_failures_are_told_together(bench: InProcess):
    """One at once, the others when the time between two calls is over; none is left out."""
    node = bench.start(modules=MODULES)
    ids = node.submit_all("told.failing", 8)
    node.ends_of(ids)
    wait_until(lambda: sorted(about(node)) == sorted(ids), "all of them")
    assert len(told(node)) <= 3


def test_a_command_that_fails_is_called_again(bench: InProcess, monkeypatch):
    """Until it goes well; what it says is told, and the notice stays in the spool until then."""
    monkeypatch.setattr(failure_calls, "AGAIN_FIRST", 0.2)
    node = bench.start(modules=MODULES)
    deaf = node.root / "deaf"
    deaf.touch()
    failed = node.run("told.failing")
    wait_until(lambda: failed.id in node.spooled("notices"), "the notice")
    deaf.unlink()
    wait_until(lambda: about(node) == [failed.id], "the call")
    wait_until(lambda: node.spooled("notices") == {}, "an empty spool")


def test_a_killed_node_tells_it_afterwards(place: Supervised):
    """What failed before, and what nobody can know any more."""
    tasks = ("--tasks", "node_telling_tasks")
    place.start(*tasks)
    deaf = place.root / "deaf"
    deaf.touch()
    failed = place.submit("told.failing")
    place.end_of(failed)
    running = place.begun("told.waiting")
    for pid in [place.supervisor.pid, *place.processes()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    place.supervisor.wait()
    deaf.unlink()
    place.start(*tasks)
    assert place.end_of(running).status is S.LOST
    wait_until(lambda: {failed, running} <= set(about(place)), "both of them")
    assert {message["task"]["status"] for message in told(place)} == {"failed", "lost"}


class Web(BaseHTTPRequestHandler):
    """Refuses the first, sends the second one elsewhere, and takes the others."""

    taken: list[dict[str, Any]]
    asked: list[str]

    def do_POST(self) -> None:
        self.asked.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response((500, 302, 204)[min(len(self.asked), 3) - 1])
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        if len(self.asked) > 2:
            self.taken.append(json.loads(body))

    def log_message(self, *_: object) -> None:
        """Not on the output."""


@pytest.fixture
def web() -> Iterator[str]:
    Web.taken, Web.asked = [], []
    with HTTPServer(("127.0.0.1", 0), Web) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook?to=ops"
        finally:
            server.shutdown()
            serving.join()


def test_a_web_address_is_told_as_well(bench: InProcess, web, monkeypatch):
    """Again and again until it takes it; nothing is sent on to where it points."""
    monkeypatch.setattr(failure_calls, "AGAIN_FIRST", 0.2)
    bench.environment["NODE_HOOK"] = os.environ["NODE_HOOK"] = web
    node = bench.start(modules=MODULES)
    failed = node.run("told.web")
    wait_until(lambda: Web.taken, "the call")
    assert Web.asked == ["/hook?to=ops"] * 3
    assert [message["task"]["id"] for message in Web.taken] == [failed.id]


@pytest.fixture
def calls() -> Iterator[tuple[FailureCalls, dict[str, Wish | None], list[str], list[tuple[str, str, bool]]]]:
    wishes: dict[str, Wish | None] = {}
    told_ids: list[str] = []
    troubles: list[tuple[str, str, bool]] = []
    made = FailureCalls(
        "node-a", wishes.get, lambda: dict(os.environ), told_ids.extend, lambda *trouble: troubles.append(trouble)
    )
    yield made, wishes, told_ids, troubles
    made.close()


def turned(calls: FailureCalls) -> None:
    """Until nothing is to be done now."""
    wait_until(lambda: calls.turn() == failure_calls.IDLE_SECONDS, "an idle turn")


def test_a_call_that_never_goes_well_is_given_up_aloud(calls, monkeypatch):
    """After its time; what nobody wants to hear goes at once, and what nobody can know yet waits."""
    made, wishes, told_ids, troubles = calls
    monkeypatch.setattr(failure_calls, "GIVE_UP_SECONDS", 0.0)
    made.add({"id": "1", "name": "a"})
    turned(made)
    assert (told_ids, troubles) == ([], [])
    wishes |= {"a": Wish("sh -c 'echo no such list; exit 5'", 300.0), "b": Wish(None, 300.0)}
    made.add({"id": "2", "name": "b"})
    turned(made)
    assert (sorted(told_ids), troubles) == (["1", "2"], [("a", "exit 5: no such list", True)])


def test_a_command_that_hangs_or_is_not_there_is_told(calls, monkeypatch):
    """In words, and tried again."""
    made, wishes, told_ids, troubles = calls
    made._call._seconds = 0.3
    wishes |= {"a": Wish("sleep 60", 300.0), "b": Wish("/nowhere/mail", 300.0)}
    for id_, name in (("1", "a"), ("2", "b")):
        made.add({"id": id_, "name": name})
    turned(made)
    assert sorted(troubles) == [
        ("a", "it took longer than 0.3 s, and was killed", False),
        ("b", "exit 127, as of a program that is not there", False),
    ]
    assert told_ids == []
