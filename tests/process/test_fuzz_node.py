"""A real node under words at random: on its control socket, and on the channel of a worker."""

import base64
import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_bench import InProcess, S, wait_until

from chong.supervisor.intake import Intake

UNMOVED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PATIENCE = 20.0
MIB = 1024 * 1024
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANY = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))


@contextmanager
def called(node: InProcess) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(PATIENCE)
        caller.connect(str(node.paths.control))
        yield caller


def answers(caller: socket.socket, count: int) -> list[dict[str, Any]]:
    """So many lines, or fewer when the node hangs up."""
    with caller.makefile("rb") as lines:
        return [json.loads(line) for line in (lines.readline() for _ in range(count)) if line]


def is_well(node: InProcess) -> bool:
    return node.controller.fault is None and node.run("noop").status is S.SUCCEEDED


# --- the control socket ------------------------------------------------------------------------------------------

REQUESTS = st.fixed_dictionaries(
    {"op": st.just("submit") | ANY},
    optional={
        "name": st.sampled_from(["noop", "nobody", ""]) | ANY,
        "key": ANY,
        "id": ANY,
        "params": ANY | st.dictionaries(st.text(max_size=5), ANY),
        "unique_key": ANY,
        "trigger": ANY,
        "stranger": ANY,
    },
)
LINES = REQUESTS.map(json.dumps) | ANY.map(json.dumps) | st.sampled_from(["", "{", "[" * 9999, "\0", "{}" * 3])
WORDS = LINES.map(lambda line: line.encode()) | st.binary(max_size=200).map(lambda data: data.replace(b"\n", b""))


@settings(max_examples=60, suppress_health_check=UNMOVED)
@given(st.lists(WORDS, min_size=1, max_size=8))
def test_every_line_has_one_answer(shared, lines):
    """Junk is told what was expected, in one line; what makes sense is done."""
    with called(shared) as caller:
        caller.sendall(b"".join(line + b"\n" for line in lines))
        found = answers(caller, len(lines))
    assert len(found) == len(lines)
    for answer in found:
        assert answer["ok"] is ("error" not in answer)
        assert answer["ok"] or (0 < len(answer["error"]) <= 1000 and "\n" not in answer["error"])
    assert shared.controller.fault is None


@settings(max_examples=25, suppress_health_check=UNMOVED)
@given(st.binary(min_size=1, max_size=3000))
def test_half_a_line_leaves_no_trace(shared, data):
    """The caller goes away in the middle of a word."""
    with called(shared) as caller:
        caller.sendall(data.replace(b"\n", b" "))
    assert shared.controller.fault is None


def test_after_all_that_the_node_works(shared):
    """And has no caller left."""
    assert is_well(shared)
    wait_until(lambda: not shared.controller._term._control._callers, "no caller left")


def test_a_line_beyond_the_limit_is_refused_and_ends_the_call(shared):
    """However much more would have come."""
    with called(shared) as caller:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            caller.sendall(b"x" * (64 * MIB))
        assert is_well(shared)


def test_a_caller_that_never_reads_costs_a_bounded_memory(shared):
    """Its answers wait for it, and it asks nothing more meanwhile."""
    with called(shared) as caller:
        caller.settimeout(1)
        with pytest.raises(TimeoutError):
            caller.sendall(b'{"op":"nonsense"}\n' * 4_000_000)
        assert is_well(shared)
        (talker,) = shared.controller._term._control._callers
        assert len(talker._unsent) + len(talker._received) < 4 * MIB


def test_a_slow_caller_is_served_beside_the_others(shared):
    """One byte after the other; whoever comes meanwhile does not wait."""
    with called(shared) as slow:
        for byte in b'{"op":"nonsense"}':
            slow.send(bytes([byte]))
            with called(shared) as quick:
                quick.sendall(b'{"op":"other"}\n')
                assert answers(quick, 1)[0]["ok"] is False
        slow.send(b"\n")
        assert "expected an op of" in answers(slow, 1)[0]["error"]


def test_a_caller_that_will_say_nothing_more_gets_its_answer(shared):
    """It has closed its own direction, as `nc` does."""
    with called(shared) as caller:
        caller.sendall(b'{"op":"nonsense"}\n')
        caller.shutdown(socket.SHUT_WR)
        assert answers(caller, 1)[0]["ok"] is False


def test_six_hundred_callers_keep_nobody_out_for_long(shared):
    """Those beyond the bound are hung up on; when some have left, the next is heard again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert min(hard, 4096) >= 2000
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        with ExitStack() as stack:
            callers = [stack.enter_context(called(shared)) for _ in range(600)]
            refused = 0
            for caller in callers:
                try:
                    caller.sendall(b'{"op":"nonsense"}\n')
                    refused += not answers(caller, 1)
                except (BrokenPipeError, ConnectionResetError):
                    refused += 1
            assert refused == 100
            assert shared.controller.submit("noop", params={})
        assert is_well(shared)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- a worker's channel ------------------------------------------------------------------------------------------

BYTES = st.binary(min_size=1, max_size=2000)
KINDS = ("ready", "started", "checkpoint", "stopping", "paused", "resumed", "result", "failure")
BODIES = st.dictionaries(
    st.sampled_from(["done", "total", "message", "state", "state_file", "value", "file", "failure", "answer"]), ANY
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """With a head that makes sense, most often, and a body that seldom does."""
    head = {
        "kind": draw(st.sampled_from(KINDS)),
        "n": draw(st.integers(100, 110) | ANY),
        "at": draw(st.just(time.time()) | ANY),
    }
    return json.dumps({**head, **draw(BODIES)}).encode()


def hostile(node: InProcess, sent: list[bytes]) -> Any:
    return node.run("hostile", frames=[base64.b64encode(each).decode() for each in sent])


@settings(max_examples=40, suppress_health_check=UNMOVED)
@given(st.lists(BYTES, min_size=1, max_size=5))
def test_bytes_on_the_channel_are_a_protocol_failure(shared, sent):
    """That run fails; the node does not notice."""
    task = hostile(shared, sent)
    assert (task.status, task.failure.kind) == (S.FAILED, "protocol")
    assert len(task.failure.message) <= 500
    assert shared.controller.fault is None


@settings(max_examples=40, suppress_health_check=UNMOVED)
@given(st.lists(frames(), min_size=1, max_size=4))
def test_frames_at_random_come_to_some_verdict(shared, sent):
    """Which one is the frames' own doing: a forged result counts, a forged number hides the real one."""
    task = hostile(shared, sent)
    assert task.status in {S.SUCCEEDED, S.FAILED}
    assert task.failure is None or task.failure.kind in {"protocol", "crashed", *OWN_KINDS}
    assert shared.controller.fault is None
    assert shared.controller.desynced_tasks == {}


OWN_KINDS = ("exception", "result_invalid", "result_too_large", "import_error")


def test_after_all_that_nothing_is_left(shared):
    """No run, no file of a run, no descriptor beyond what an idle node has."""
    assert is_well(shared)
    wait_until(lambda: shared.controller.running == 0, "no run")
    wait_until(lambda: list(shared.paths.runs.iterdir()) == [], "no files of runs")
    wait_until(lambda: shared.spooled("states") == {}, "no states")


def test_a_fault_behind_a_request_ends_nothing(node: InProcess, monkeypatch: pytest.MonkeyPatch):
    """It is refused as what it is, and the next one is served."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(Intake, "submit", fail)
        with called(node) as caller:
            caller.sendall(b'{"op":"submit","name":"noop"}\n')
            (answer,) = answers(caller, 1)
    assert answer["error"] == "internal error: ZeroDivisionError; the supervisor's log has more"
    assert is_well(node)
