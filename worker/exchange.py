"""A request to a node's control socket and its answer: one line of JSON there, one line back."""

import json
import socket
from pathlib import Path
from typing import Any

from chong.worker.unix import LINE_LIMIT, connect

ANSWER_LIMIT = 4 * LINE_LIMIT
CHUNK = 65_536


class AnswerLostError(ConnectionError):
    """The request was sent; whether it was accepted is unknown."""


class AnswerLateError(AnswerLostError):
    """The connection stands, and no answer has come in time."""


def line_of(request: dict[str, Any]) -> bytes:
    """ValueError for what is no JSON, or too much of it."""
    try:
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, RecursionError) as error:
        raise ValueError(f"request: expected JSON: {error}") from None
    if len(line) > LINE_LIMIT:
        raise ValueError(f"request: expected at most {LINE_LIMIT} bytes, got {len(line)}")
    return line


def content_of(answer: bytes) -> tuple[bool, dict[str, Any]]:
    """Whether it says that all is well, and what else it says; ValueError when nobody understands it."""
    try:
        content = dict(json.loads(answer))
        is_ok = bool(content.pop("ok"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"the supervisor's answer is not understood: {answer[:100]!r}") from None
    if not is_ok and not {"code", "error"} <= content.keys():
        raise ValueError(f"the supervisor's answer is not understood: {answer[:100]!r}")
    return is_ok, content


def exchange(path: Path, line: bytes, timeout: float | None, *, connecting: float = 30.0) -> bytes:
    """The answer to one line; OSError when nobody listens, AnswerLostError when nobody answers.

    timeout: seconds without a word of the answer, None for any; connecting: for there being room to connect.
    """
    with connect(path, socket.SOCK_STREAM, connecting if timeout is None else timeout) as channel:
        channel.settimeout(timeout)
        try:
            channel.sendall(line)
            return _read_line(channel)
        except TimeoutError as error:
            raise AnswerLateError(str(error)) from error
        except OSError as error:
            raise AnswerLostError(str(error)) from error


def _read_line(channel: socket.socket) -> bytes:
    answer = bytearray()
    while not answer.endswith(b"\n"):
        chunk = channel.recv(CHUNK)
        if not chunk or len(answer) > ANSWER_LIMIT:
            raise ConnectionError("the answer has no end")
        answer += chunk
    return bytes(answer)
