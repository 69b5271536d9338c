"""A task that writes to its own channel whatever it likes: its own run fails, nothing else does."""

import base64
import json
import time
from typing import Any

import pytest
from node_bench import InProcess, S


def frame(kind: Any = "checkpoint", n: Any = 100, at: Any = None, **body: Any) -> bytes:
    return json.dumps({"kind": kind, "n": n, "at": time.time() if at is None else at, **body}).encode()


FAILURE = {"kind": "exception", "cause": "x", "message": "y", "traceback": None}
JUNK: dict[str, list[bytes]] = {
    "bytes": [b"\xff\x00junk"],
    "nothing": [b""],
    "nothing, and then a result": [b"", frame("result", value=1)],
    "bare scalar": [b"7"],
    "list": [b"[1]"],
    "nesting": [b"[" * 50_000],
    "nested object": [b'{"a":' * 10_000],
    "too long": [b"x" * 100_000],
    "long json": [b'{"a":"' + b"x" * 100_000 + b'"}'],
    "unknown kind": [frame("sing")],
    "kind is a list": [frame([])],
    "kind is an object": [frame({"a": 1})],
    "number is text": [frame(n="1")],
    "number is negative": [frame(n=-1)],
    "number is true": [frame(n=True)],
    "time is text": [frame(at="now")],
    "time is absurd": [frame(at=1e300)],
    "time is not a number": [b'{"kind":"checkpoint","n":100,"at":NaN}'],
    "time is a huge whole number": [b'{"kind":"checkpoint","n":100,"at":1' + b"0" * 400 + b"}"],
    "progress is text": [frame(done="many")],
    "progress is infinite": [b'{"kind":"checkpoint","n":100,"at":1.7e9,"done":1e999}'],
    "progress is not a number": [b'{"kind":"checkpoint","n":100,"at":1.7e9,"done":NaN}'],
    "progress is a huge whole number": [b'{"kind":"checkpoint","n":100,"at":1.7e9,"done":1' + b"0" * 400 + b"}"],
    "message is a list": [frame(message=[])],
    "message has a surrogate": [frame(message="\ud800")],
    "message has NUL": [frame(message="a\0b")],
    "state has a surrogate": [frame(state="\ud800")],
    "state is not a number": [b'{"kind":"checkpoint","n":100,"at":1.7e9,"state":NaN}'],
    "state file does not exist": [frame(state_file="none.json")],
    "state file is elsewhere": [frame(state_file="../../../node.json")],
    "state file has NUL": [frame(state_file="a\0b")],
    "state file has a surrogate": [frame(state_file="a\udc80b")],
    "state file is a directory": [frame(state_file="..")],
    "result without value": [frame("result")],
    "result is not a number": [b'{"kind":"result","n":100,"at":1.7e9,"value":NaN}'],
    "result has a surrogate": [frame("result", value="\ud800")],
    "result has NUL": [frame("result", value="a\0b")],
    "result is a huge whole number": [b'{"kind":"result","n":100,"at":1.7e9,"value":1' + b"0" * 400 + b"}"],
    "result is deep": [b'{"kind":"result","n":100,"at":1.7e9,"value":' + b"[" * 800 + b"]" * 800 + b"}"],
    "failure without words": [frame("failure", failure={})],
    "failure of an unknown kind": [frame("failure", failure={**FAILURE, "kind": "sadness"})],
    "failure kind is a list": [frame("failure", failure={**FAILURE, "kind": []})],
    "failure that is not its own": [frame("failure", failure={**FAILURE, "kind": "timeout"})],
    "failure is a text": [frame("failure", failure="x")],
    "failure has a surrogate": [frame("failure", failure={**FAILURE, "message": "\ud800"})],
    "answer is text": [frame("paused", answer="x")],
}


def coded(frames: list[bytes]) -> list[str]:
    return [base64.b64encode(each).decode() for each in frames]


@pytest.mark.parametrize("what", JUNK)
def test_junk_fails_its_own_run_only(shared: InProcess, what):
    """The verdict is `protocol`; the node goes on as if nothing had been."""
    task_id = shared.submit("hostile", frames=coded(JUNK[what]), stay=True)
    task = shared.end_of(task_id, limit=10)
    assert (task.status, task.failure.kind) == (S.FAILED, "protocol")
    assert shared.controller.fault is None
    assert shared.run("noop").status is S.SUCCEEDED
    assert shared.controller.desynced_tasks == {}


REPEATED: dict[str, list[bytes]] = {
    "two results": [frame("result", 100, value=1), frame("result", 101, value=2)],
    "checkpoint after the result": [frame("result", 100, value=1), frame("checkpoint", 101, done=1)],
    "failure after the result": [frame("result", 100, value=1), frame("failure", 101, failure=FAILURE)],
    "junk after the result": [frame("result", 100, value=1), b"junk"],
    "nothing after the result": [frame("result", 100, value=1), b""],
}


@pytest.mark.parametrize("what", REPEATED)
def test_the_first_complete_result_counts(shared: InProcess, what):
    """Whatever comes behind it changes nothing."""
    task = shared.run("hostile", frames=coded(REPEATED[what]))
    assert (task.status, task.outcome) == (S.SUCCEEDED, 1)
    assert shared.run("noop").status is S.SUCCEEDED


def test_a_foretold_number_hides_what_follows(shared: InProcess):
    """Numbers only rise: the worker's own frames count as seen, and without a result it crashed."""
    task = shared.run("hostile", frames=coded([frame(n=10**9)]))
    assert (task.status, task.failure.kind, task.exit_code) == (S.FAILED, "crashed", 0)


def test_repeated_words_of_a_run_change_nothing(shared: InProcess):
    """`ready` and `started` again, and answers that nobody asked for."""
    words = [frame("ready", 100), frame("started", 101), frame("paused", 102, answer=[1, 1])]
    words += [
        frame("stopping", 103, answer=[1, 1]),
        frame("resumed", 104, answer=[9**30, 1]),
        frame("result", 105, value=5),
    ]
    task = shared.run("hostile", frames=coded(words))
    assert task.outcome == 5
    assert shared.trail(task.id) == [S.QUEUED, S.STARTING, S.RUNNING, S.SUCCEEDED]


def test_a_file_that_blocks_its_reader_does_not_block_the_node(node: InProcess):
    """A FIFO in place of a result file."""
    task_id = node.submit("fifo", root=str(node.state))
    task = node.end_of(task_id, limit=10)
    assert (task.status, task.failure.kind) == (S.FAILED, "protocol")
    assert node.run("noop").status is S.SUCCEEDED
