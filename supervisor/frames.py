"""What a worker's frame means. A worker may send anything: what is not understood fails its run, nothing else."""

import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chong.store.model import Failure, FailureKind, Progress
from chong.supervisor.events import (
    Answered,
    Checkpointed,
    FailureArrived,
    Happening,
    Ready,
    ResultArrived,
    RetryAsked,
    Started,
)
from chong.supervisor.verdict import Result
from chong.worker.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT
from chong.worker.result import INT_LIMIT, RESULT_LIMIT, STATE_LIMIT, encode_result, encode_state
from chong.worker.retrying import MOST_WAIT
from chong.worker.runfile import HELD_BACK
from chong.worker.wire import FRAME_LIMIT, Down, ProtocolError, Up, UpFrame

CAUSE_LIMIT = 200
FAILURE_FILE_LIMIT = 6 * TRACEBACK_LIMIT  # escaped in JSON, a character may take six

_ANSWERS = {Up.STOPPING: Down.STOP, Up.PAUSED: Down.PAUSE, Up.RESUMED: Down.RESUME}
_WORKERS_KINDS = frozenset(
    {
        FailureKind.EXCEPTION,
        FailureKind.RESULT_INVALID,
        FailureKind.RESULT_TOO_LARGE,
        FailureKind.IMPORT_ERROR,
        FailureKind.PROTOCOL,
    }
)
"""What a worker may say of itself; the other kinds are the supervisor's to find."""


def interpret(frame: UpFrame, run_dir: Path) -> Happening:
    """The happening that a frame tells of; ProtocolError when it makes no sense."""
    body = frame.body
    if frame.kind is Up.READY:
        return Ready()
    if frame.kind is Up.STARTED:
        return Started()
    if frame.kind is Up.CHECKPOINT:
        return Checkpointed(_progress(body))
    if frame.kind is Up.RESULT:
        result = _value(body, "value", "file", run_dir, RESULT_LIMIT)
        _checked(encode_result, result)
        return ResultArrived(Result(result))
    if frame.kind is Up.FAILURE:
        content = _value(body, "failure", "file", run_dir, FAILURE_FILE_LIMIT)
        _checked(encode_result, content)
        return FailureArrived(_failure(content), _retry_word(content), _retry_asked(content))
    return Answered(_ANSWERS[frame.kind], _number(body.get("answer")))


def state_of(frame: UpFrame, run_dir: Path) -> str | None:
    """The JSON text of a checkpoint's `state`, None when it carries none."""
    if "state" not in frame.body and "state_file" not in frame.body:
        return None
    return _checked(encode_state, _value(frame.body, "state", "state_file", run_dir, STATE_LIMIT))


def held_back(run_dir: Path) -> bytes | None:
    """The checkpoint that a run had not sent yet when it ended: a frame like others, old if a later one was sent."""
    try:
        return _read_plain(run_dir / HELD_BACK, FRAME_LIMIT + 1)
    except OSError:
        return None


def time_of(frame: UpFrame) -> datetime:
    """When the worker sent the frame, by its clock; ProtocolError for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(frame.at, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ProtocolError(f"frame: expected seconds since the epoch, got {frame.at!r}") from error


def _checked(encode: Callable[[Any], str], value: Any) -> str:
    """The worker's validator once more: a task may write to its channel past the worker's edge."""
    try:
        return encode(value)
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _progress(body: dict[str, Any]) -> Progress:
    done, total, message = body.get("done"), body.get("total"), body.get("message")
    for number in (done, total):
        if number is not None and not _is_storable(number):
            raise ProtocolError(f"checkpoint: expected finite numbers of 64 bits, got {type(number).__name__}")
    if message is not None and not (isinstance(message, str) and message.isprintable()):
        raise ProtocolError("checkpoint: expected a printable text as message")
    return Progress(done, total, None if message is None else message[:MESSAGE_LIMIT])


def _is_storable(number: object) -> bool:
    return type(number) in (int, float) and -INT_LIMIT < number < INT_LIMIT  # type: ignore[operator]


def _value(body: dict[str, Any], inline: str, named: str, run_dir: Path, limit: int) -> Any:
    if inline in body:
        return body[inline]
    name = body.get(named)
    if not isinstance(name, str) or Path(name).name != name:
        raise ProtocolError(f"frame: expected {inline} or a file's plain name in {named}, got {str(name)[:60]!r}")
    try:
        data = _read_plain(run_dir / name, limit + 1)
        if len(data) > limit:
            raise ProtocolError(f"frame: expected a file of at most {limit} bytes, {name[:60]!r} is larger")
        return json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise ProtocolError(f"frame: expected JSON in file {name[:60]!r}, it cannot be read: {error}") from error


def _read_plain(path: Path, limit: int) -> bytes:
    """OSError for anything but a plain file: a FIFO in its place would hold the main loop for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        # Before a file is made of it: that fails for a directory, and leaves the descriptor open.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path.name} is no plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def _failure(content: Any) -> Failure:
    try:
        kind = FailureKind(content["kind"])
        if kind not in _WORKERS_KINDS:
            raise ValueError(kind)
        traceback = content.get("traceback") or None
        return Failure(
            kind,
            str(content["cause"])[:CAUSE_LIMIT],
            str(content["message"])[:MESSAGE_LIMIT],
            None if traceback is None else str(traceback)[:TRACEBACK_LIMIT],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"failure: expected kind, cause and message, got {str(content)[:60]!r}") from error


def _retry_word(content: dict[str, Any]) -> bool | None:
    word = content.get("retry")
    if word is not None and type(word) is not bool:
        raise ProtocolError(f"failure: expected true or false as retry, got {str(word)[:60]!r}")
    return word


def _retry_asked(content: dict[str, Any]) -> RetryAsked | None:
    if "retry_after" not in content:
        return None
    after = content["retry_after"]
    if after is not None and not (type(after) in (int, float) and 0 <= after <= MOST_WAIT):
        raise ProtocolError(f"failure: expected seconds up to {MOST_WAIT:.0f} as retry_after, got {str(after)[:60]!r}")
    return RetryAsked(after)


def _number(answer: Any) -> tuple[int, int]:
    if not isinstance(answer, list) or [type(part) for part in answer] != [int, int]:
        raise ProtocolError(f"frame: expected the number of the frame that it answers, got {str(answer)[:60]!r}")
    return (answer[0], answer[1])
