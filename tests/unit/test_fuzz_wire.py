"""Bytes at random, and frames of which single bytes were changed: each is understood, or is a protocol error."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chong.supervisor.frames import interpret, state_of, time_of
from chong.worker.plain import encode_plain
from chong.worker.result import encode_state
from chong.worker.wire import Down, ProtocolError, Up, decode, decode_down, decode_up, embed_up, encode_down


def encode_up(kind: Up, number: int, at: float, **body: Any) -> bytes:
    return embed_up(kind, number, at, {name: encode_plain(value) for name, value in body.items()})


FAILURE = {"kind": "exception", "cause": "ValueError", "message": "no", "traceback": "Traceback …"}
UP = [
    encode_up(Up.READY, 1, 1.5),
    encode_up(Up.STARTED, 2, 1.5),
    encode_up(Up.CHECKPOINT, 3, 1.5, done=1, total=2.5, message="page 1", state={"page": [1, None]}),
    encode_up(Up.CHECKPOINT, 4, 1.5, state_file="file.json", state_bytes=9),
    encode_up(Up.PAUSED, 5, 1.5, answer=[1, 2]),
    encode_up(Up.RESULT, 6, 1.5, value={"pages": 3}),
    encode_up(Up.RESULT, 7, 1.5, file="file.json", bytes=9),
    encode_up(Up.FAILURE, 8, 1.5, failure=FAILURE),
    encode_up(Up.FAILURE, 9, 1.5, file="file.json"),
]
DOWN = [
    encode_down(Down.STOP, 1, 2, reason="enough"),
    encode_down(Down.GO, 1, 1, task={"id": "1", "name": "a"}, params={}, run_dir="/"),
]


@st.composite
def spoilt(draw: st.DrawFn, frames: list[bytes]) -> bytes:
    """A frame with some of its bytes changed, taken out or doubled."""
    data = bytearray(draw(st.sampled_from(frames)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        data[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        if not data:
            break
    return bytes(data)


@settings(max_examples=300)
@given(spoilt(UP) | st.binary(max_size=300), st.binary(max_size=40) | st.sampled_from([b"[" * 9999, b"1e999", b"{}"]))
def test_a_spoilt_frame_of_a_worker_means_something_or_is_junk(tmp_path_factory, data, content):
    """Whatever lies in the file that it names."""
    run_dir: Path = tmp_path_factory.getbasetemp()
    (run_dir / "file.json").write_bytes(content)
    try:
        frame = decode_up(data)
        time_of(frame)
        state = state_of(frame, run_dir)
        interpret(frame, run_dir)
    except ProtocolError:
        return
    assert state is None or encode_state(json.loads(state)) == state


@settings(max_examples=200)
@given(spoilt(DOWN) | st.binary(max_size=300))
def test_a_spoilt_frame_of_a_supervisor_means_something_or_is_junk(data):
    """A worker meets those of another version."""
    try:
        frame = decode_down(data)
    except ProtocolError:
        return
    assert frame.kind in set(Down)
    assert [type(part) for part in frame.number] == [int, int]


@given(st.binary(max_size=200) | st.integers(1, 3).map(lambda n: b"[" * n * 40_000) | spoilt(UP))
def test_a_message_is_an_object_or_junk(data):
    """However deep, however long."""
    try:
        message = decode(data)
    except ProtocolError:
        return
    assert json.loads(data) == message


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)))
def test_what_was_encoded_is_decoded(body):
    """Lone surrogates excepted, which no socket takes."""
    try:
        data = encode_up(Up.CHECKPOINT, 1, 2.0, body=body)
    except UnicodeEncodeError:
        return
    assert decode_up(data).body == {"body": body}
