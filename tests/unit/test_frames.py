"""A worker may send anything: what is not understood is a ProtocolError, and never another error."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chong.store.model import Failure, FailureKind, Progress
from chong.store.specimens import queued, start_of
from chong.supervisor import events as e
from chong.supervisor.frames import CAUSE_LIMIT, interpret, state_of, time_of
from chong.supervisor.go import go_frame
from chong.supervisor.task_state import TaskState
from chong.supervisor.verdict import Result
from chong.worker.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT
from chong.worker.options import Options
from chong.worker.result import INT_LIMIT, RESULT_LIMIT, encode_result, encode_state
from chong.worker.wire import (
    FRAME_LIMIT,
    INLINE_LIMIT,
    TIME_LIMIT,
    Down,
    ProtocolError,
    Up,
    UpFrame,
    decode_down,
    decode_up,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from(["done", "total", "message", "value", "file", "failure", "answer", "state", "state_file"])


def frame(kind, /, **body):
    return UpFrame(kind, 1, 0.0, body)


COUNT = st.integers(-2 * INT_LIMIT, 2 * INT_LIMIT) | st.floats()
FAILURES = st.fixed_dictionaries(
    {"kind": st.sampled_from(FailureKind), "cause": JSON, "message": JSON}, optional={"traceback": JSON, "retry": JSON}
)
SENSELESS = st.builds(lambda kind, body: frame(kind, **body), st.sampled_from(Up), st.dictionaries(FIELDS, JSON))
NEARLY = (
    st.builds(frame, st.just(Up.CHECKPOINT), done=COUNT, total=COUNT | st.none(), message=st.none() | st.text())
    | st.builds(
        frame, st.sampled_from([Up.STOPPING, Up.PAUSED, Up.RESUMED]), answer=st.lists(st.integers(), max_size=3)
    )
    | st.builds(frame, st.just(Up.RESULT), value=JSON)
    | st.builds(frame, st.just(Up.FAILURE), failure=FAILURES)
)
"""Frames that make sense, but for a value or two."""
RAISED = {"kind": "exception", "cause": "ValueError", "message": "no such page", "traceback": "Traceback"}


class TestMeaning:
    @pytest.mark.parametrize(
        ("sent", "happening"),
        [
            (frame(Up.READY), e.Ready()),
            (frame(Up.STARTED), e.Started()),
            (frame(Up.CHECKPOINT), e.Checkpointed(Progress())),
            (frame(Up.CHECKPOINT, done=1, total=2.5, message="m"), e.Checkpointed(Progress(1, 2.5, "m"))),
            (frame(Up.STOPPING, answer=[3, 1]), e.Answered(Down.STOP, (3, 1))),
            (frame(Up.PAUSED, answer=[3, 2]), e.Answered(Down.PAUSE, (3, 2))),
            (frame(Up.RESUMED, answer=[3, 3]), e.Answered(Down.RESUME, (3, 3))),
            (frame(Up.RESULT, value=None), e.ResultArrived(Result(None))),
            (
                frame(Up.FAILURE, failure=RAISED | {"retry": False}),
                e.FailureArrived(Failure(FailureKind.EXCEPTION, "ValueError", "no such page", "Traceback"), False),
            ),
            (
                frame(Up.FAILURE, failure=RAISED | {"retry": True, "retry_after": 90.5}),
                e.FailureArrived(
                    Failure(FailureKind.EXCEPTION, "ValueError", "no such page", "Traceback"), True, e.RetryAsked(90.5)
                ),
            ),
            (
                frame(Up.FAILURE, failure=RAISED | {"retry": True, "retry_after": None}),
                e.FailureArrived(
                    Failure(FailureKind.EXCEPTION, "ValueError", "no such page", "Traceback"), True, e.RetryAsked()
                ),
            ),
            (
                frame(Up.FAILURE, failure=RAISED),
                e.FailureArrived(Failure(FailureKind.EXCEPTION, "ValueError", "no such page", "Traceback")),
            ),
        ],
    )
    def test_each_frame_has_its_meaning(self, tmp_path, sent, happening):
        """As `decide` knows it."""
        assert happening == interpret(sent, tmp_path)

    def test_what_is_large_comes_in_a_file(self, tmp_path):
        """Which the frame names."""
        (tmp_path / "result.json").write_text('{"pages": 90}')
        assert e.ResultArrived(Result({"pages": 90})) == interpret(frame(Up.RESULT, file="result.json"), tmp_path)

    def test_what_people_read_is_cut_to_its_bounds(self, tmp_path):
        """A long word of the worker's is shortened, not refused."""
        long = {"kind": "exception"} | dict.fromkeys(("cause", "message", "traceback"), "x" * 100_000)
        failure = interpret(frame(Up.FAILURE, failure=long), tmp_path).failure
        lengths = (len(failure.cause), len(failure.message), len(failure.traceback))
        assert lengths == (CAUSE_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT)
        said = interpret(frame(Up.CHECKPOINT, message="x" * 1000), tmp_path)
        assert len(said.progress.message) == MESSAGE_LIMIT

    def test_a_checkpoint_may_carry_a_state(self, tmp_path):
        """Inline, in a file, or not at all; null is a state."""
        (tmp_path / "state.json").write_text("[7]")
        sent = [{"state": None}, {"state_file": "state.json"}, {}]
        assert [state_of(frame(Up.CHECKPOINT, **body), tmp_path) for body in sent] == ["null", "[7]", None]


def is_within_bounds(happening):
    """Whether every store and every table takes it as it is."""
    match happening:
        case e.Ready() | e.Started():
            return True
        case e.Checkpointed(Progress(done, total, message)):
            counts = [number for number in (done, total) if number is not None]
            words = message or ""
            return (
                all(type(number) in (int, float) and abs(number) < INT_LIMIT for number in counts)
                and len(words) <= MESSAGE_LIMIT
                and words.isprintable()
            )
        case e.Answered(kind, (epoch, sequence)):
            return (kind in Down, type(epoch), type(sequence)) == (True, int, int)
        case e.ResultArrived(Result(value)):
            return json.loads(encode_result(value)) == value
        case e.FailureArrived(Failure() as failure):
            words = (failure.cause, failure.message, failure.traceback or "")
            limits = (CAUSE_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT)
            return encode_result(words) and all(len(word) <= limit for word, limit in zip(words, limits, strict=True))
    return False


class TestJunk:
    @settings(max_examples=250)
    @given(SENSELESS | NEARLY)
    def test_a_senseless_frame_is_a_protocol_error_or_means_something(self, tmp_path_factory, sent):
        """What it means then is within the bounds that the rest of the supervisor relies on."""
        try:
            happening = interpret(sent, tmp_path_factory.getbasetemp())
        except ProtocolError:
            return
        assert is_within_bounds(happening), happening

    @given(st.dictionaries(FIELDS, JSON))
    def test_a_senseless_state_is_a_protocol_error_or_kept_as_it_is(self, tmp_path_factory, body):
        """Its text is the very one that the worker's edge would have made of it."""
        try:
            text = state_of(frame(Up.CHECKPOINT, **body), tmp_path_factory.getbasetemp())
        except ProtocolError:
            return
        assert text == (encode_state(body["state"]) if "state" in body else None)

    @given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
    def test_bytes_that_are_no_frame_are_a_protocol_error(self, data):
        """Whatever they are."""
        with pytest.raises(ProtocolError):
            decode_up(data)

    @given(st.sampled_from(Up) | JSON, st.integers(-1, 9) | JSON, st.floats(-1, 2 * TIME_LIMIT) | JSON)
    def test_a_head_that_makes_no_sense_is_a_protocol_error(self, kind, number, at):
        """What passes has a known kind, a number from 1 and a time of some calendar."""
        try:
            read = decode_up(json.dumps({"kind": kind, "n": number, "at": at}).encode())
            moment = time_of(read)
        except ProtocolError:
            return
        assert (Up(kind), number, at, {}) == (read.kind, read.number, read.at, read.body)
        assert (type(read.kind), type(read.number), type(read.at)) == (Up, int, float)
        assert read.number >= 1
        assert math.isfinite(read.at)
        assert math.isclose(read.at, moment.timestamp(), abs_tol=1e-3)

    @pytest.mark.parametrize("after", [-1, 31 * 86_400, True, "5", []])
    def test_a_wish_beyond_its_bounds_is_a_protocol_error(self, tmp_path, after):
        """The worker's edge lets none through."""
        with pytest.raises(ProtocolError, match="expected seconds up to 2592000 as retry_after"):
            interpret(frame(Up.FAILURE, failure=RAISED | {"retry_after": after}), tmp_path)

    @pytest.mark.parametrize("kind", [[], {}, 7, None, "nonsense"])
    def test_a_kind_is_one_of_a_few_words(self, kind):
        """A list cannot even be looked up."""
        with pytest.raises(ProtocolError):
            decode_up(json.dumps({"kind": kind, "n": 1, "at": 0}).encode())

    @pytest.mark.parametrize("at", ["NaN", "Infinity", "1e300", "-1e18", "1" + "0" * 400])
    def test_a_time_that_no_calendar_has_is_a_protocol_error(self, at):
        """One too large for a float among them."""
        with pytest.raises(ProtocolError):
            time_of(decode_up(f'{{"kind":"ready","n":1,"at":{at}}}'.encode()))

    @pytest.mark.parametrize("name", ["", ".", "..", "../result.json", "/etc/hostname", "a/b", "a\0b", 7, None, "gone"])
    def test_a_file_elsewhere_is_a_protocol_error(self, tmp_path, name):
        """Only plain names of the run's own directory."""
        with pytest.raises(ProtocolError):
            interpret(frame(Up.RESULT, file=name), tmp_path)

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 50_000, b" " * (RESULT_LIMIT + 1)])
    def test_a_file_that_is_no_json_is_a_protocol_error(self, tmp_path, content):
        """Or is too large, or too deep."""
        (tmp_path / "result.json").write_bytes(content)
        with pytest.raises(ProtocolError):
            interpret(frame(Up.RESULT, file="result.json"), tmp_path)

    @pytest.mark.parametrize(
        "failure",
        [
            None,
            [],
            {},
            RAISED | {"kind": "nonsense"},
            RAISED | {"kind": "crashed"},
            RAISED | {"kind": "timeout"},
            "text",
        ],
    )
    def test_a_worker_may_not_say_what_is_the_supervisors_to_find(self, tmp_path, failure):
        """Nor nonsense."""
        with pytest.raises(ProtocolError):
            interpret(frame(Up.FAILURE, failure=failure), tmp_path)

    @pytest.mark.parametrize("answer", [None, 1, [1], [1, 2, 3], [True, 1], [1.0, 2], ["1", 2]])
    def test_an_answer_names_a_number(self, tmp_path, answer):
        """Of two whole parts."""
        with pytest.raises(ProtocolError):
            interpret(frame(Up.PAUSED, answer=answer), tmp_path)

    @pytest.mark.parametrize("text", [r'"\ud800"', "NaN", "-Infinity"])
    def test_a_state_that_cannot_be_kept_is_a_protocol_error(self, tmp_path, text):
        """It fails its run, not the supervisor that writes it down."""
        sent = decode_up(f'{{"kind":"checkpoint","n":1,"at":0,"state":{text}}}'.encode())
        with pytest.raises(ProtocolError):
            state_of(sent, tmp_path)

    @pytest.mark.parametrize("text", [r'"\ud800"', "NaN", "[Infinity]", r'"\u0000"'])
    def test_a_result_that_no_store_takes_is_a_protocol_error(self, tmp_path, text):
        """A refused save would look like a second writer."""
        with pytest.raises(ProtocolError):
            interpret(decode_up(f'{{"kind":"result","n":1,"at":0,"value":{text}}}'.encode()), tmp_path)


def go(tmp_path, params, last=None, **options):
    task = replace(start_of(queued()), bucket=3, bucket_key="acme")
    state = TaskState(task=task, options=Options(**options), term="node-a.1", epoch=5)
    data = go_frame((5, 1), state, params, last, tmp_path / "run")
    assert len(data) <= FRAME_LIMIT
    return decode_down(data)


class TestGo:
    def test_it_carries_what_the_task_needs(self, tmp_path):
        """And nothing is written."""
        sent = go(tmp_path, {"since": "2026"}, [7])
        task = {"id": queued().id, "name": "billing.sync", "key": "acme", "bucket": 3, "attempt": 1, "deadline": None}
        assert (Down.GO, (5, 1), task) == (sent.kind, sent.number, sent.body["task"])
        assert (
            sent.body["params"],
            sent.body["last_checkpoint"],
            (tmp_path / "run").exists(),
        ) == ({"since": "2026"}, [7], False)

    @pytest.mark.parametrize(("room", "inline"), [(0, True), (1, False)])
    def test_what_is_too_large_goes_through_a_file(self, tmp_path, room, inline):
        """By the byte."""
        params = {"p": "x" * (INLINE_LIMIT - len('{"p": ""}') - len("null") + room)}
        sent = go(tmp_path, params)
        assert inline == (sent.body.get("last_checkpoint", "absent") is None)
        assert params == sent.body["params"]

    @pytest.mark.parametrize("text", ["x", "名", "🙂", "\n", '"'])
    def test_large_parameters_come_back_from_their_file(self, tmp_path, text):
        """Whatever they consist of; the limit counts bytes of JSON."""
        params, last = {"p": text * 50_000}, {"s": text * 30_000}
        sent = go(tmp_path, params, last)
        for name, value in (("params", params), ("last_checkpoint", last)):
            found = sent.body.get(name)
            if found is None:
                found = json.loads((tmp_path / "run" / sent.body[f"{name}_file"]).read_text(encoding="utf-8"))
            assert value == found

    def test_a_timeout_is_a_deadline(self, tmp_path):
        """By the clock that the worker has too."""
        assert go(tmp_path, {}, timeout=60.0).body["task"]["deadline"] > 0
