"""The frames between a supervisor, a forkserver and a worker.

All three talk JSON over `SOCK_SEQPACKET`: one message is one frame, whole or not at all. A frame has at most
`FRAME_LIMIT` bytes; what is larger goes through a file that the frame names, written under another name first.

Worker channel, the supervisor's end S and the worker's end W:

* Down frames carry `n = [epoch, sequence]`, where the epoch rises with each attach. A worker takes only higher
  numbers, and only its first `go`; `stopping`, `paused` and `resumed` say which number they `answer`.
* Up frames carry `n`, rising by one from 1, and `at`, the worker's clock in seconds since the epoch. Task id,
  attempt and `n` are the event id of what a frame causes, so that a replayed frame finds its own trace.
* The supervisor peeks at a frame, acts, and pops it once what it says is stored.

Control channel between supervisor and forkserver: messages of `Order` and `Report`, descriptors beside them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chong.worker.plain import decode_plain, encode_plain

PROTOCOL_VERSION = 1
FRAME_LIMIT = 64 * 1024
INLINE_LIMIT = 48 * 1024
"""JSON longer than this goes through a file."""

TIME_LIMIT = 1e11
"""Seconds since the epoch, far beyond any calendar's use."""

CHANNEL_FD = 3
LEASH_FD = 4
SO_PEEK_OFF = 42  # asm-generic/socket.h; the socket module does not name it


class ProtocolError(Exception):
    """The other side sent something that is no frame."""


class Down(StrEnum):
    """Supervisor to worker."""

    GO = "go"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"


class Up(StrEnum):
    """Worker to supervisor."""

    READY = "ready"
    STARTED = "started"
    CHECKPOINT = "checkpoint"
    STOPPING = "stopping"
    PAUSED = "paused"
    RESUMED = "resumed"
    RESULT = "result"
    FAILURE = "failure"


class Order(StrEnum):
    """Supervisor to forkserver. `attach` and `release` never change between versions, nor what they lead to."""

    ATTACH = "attach"  # term (null: serve, but do not count it as served): the answer to hello; the list follows
    SPAWN = "spawn"  # run, task, log, title, memo: fork a worker; idempotent by run
    RELEASE = "release"  # run: its end is stored, reap it
    PING = "ping"  # say something: `pong`, behind all that was to be said before
    RETIRE = "retire"  # start nothing more, end when nothing is unreleased; of a later term: your runs are mine now


class Report(StrEnum):
    """Forkserver to supervisor."""

    HELLO = (
        "hello"  # protocol, generation, pid, served (term before or null), catalogue; the leash's write end beside it
    )
    WORKER = "worker"  # one per unreleased run: run, pid, memo, title, its end, exited; S and pidfd beside it
    ATTACHED = "attached"  # the list is complete
    SPAWNED = "spawned"  # run, pid; S and pidfd beside it
    REFUSED = "refused"  # run, reason: the fork failed
    PONG = "pong"  # the answer to ping
    EXITED = "exited"  # run, its end: code, signal (one of them null) by WNOWAIT, at, cpu_seconds, max_rss_bytes, oom


@dataclass(frozen=True, slots=True)
class UpFrame:
    kind: Up
    number: int
    at: float
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DownFrame:
    kind: Down
    epoch: int
    sequence: int
    body: dict[str, Any]

    @property
    def number(self) -> tuple[int, int]:
        return (self.epoch, self.sequence)


def encode(message: dict[str, Any]) -> bytes:
    """One message as bytes; ProtocolError when it is larger than a frame."""
    data = encode_plain(message).encode()
    if len(data) > FRAME_LIMIT:
        raise ProtocolError(f"frame: expected at most {FRAME_LIMIT} bytes, got {len(data)}")
    return data


def decode(data: bytes) -> dict[str, Any]:
    """Bytes as one message; ProtocolError for anything else, whatever it is."""
    if len(data) > FRAME_LIMIT:
        raise ProtocolError(f"frame: expected at most {FRAME_LIMIT} bytes, got more")
    try:
        message = decode_plain(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"frame: expected a JSON object, got {data[:40]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"frame: expected a JSON object, got {data[:40]!r}")
    return message


def embed_up(kind: Up, number: int, at: float, texts: dict[str, str]) -> bytes:
    """A worker's message of fields that are JSON already: a value is encoded once, where it was checked."""
    fields = "".join(f',"{name}":{text}' for name, text in texts.items())
    data = f'{{"kind":"{kind}","n":{number},"at":{at!r}{fields}}}'.encode()
    if len(data) > FRAME_LIMIT:
        raise ProtocolError(f"frame: expected at most {FRAME_LIMIT} bytes, got {len(data)}")
    return data


def encode_down(kind: Down, epoch: int, sequence: int, **body: Any) -> bytes:
    return encode({"kind": kind, "n": [epoch, sequence], **body})


def decode_up(data: bytes) -> UpFrame:
    message = decode(data)
    kind, number, at = message.pop("kind", None), message.pop("n", None), message.pop("at", None)
    if not _is_of(kind, _UP_KINDS) or type(number) is not int or number < 1 or not _is_time(at):
        raise ProtocolError(f"frame: expected kind, n and at of a worker, got {data[:60]!r}")
    return UpFrame(Up(kind), number, float(at), message)


def decode_down(data: bytes) -> DownFrame:
    message = decode(data)
    kind, number = message.pop("kind", None), message.pop("n", None)
    if not _is_of(kind, _DOWN_KINDS) or not isinstance(number, list) or [type(part) for part in number] != [int, int]:
        raise ProtocolError(f"frame: expected kind and n of a supervisor, got {data[:60]!r}")
    return DownFrame(Down(kind), number[0], number[1], message)


def _is_of(kind: object, kinds: frozenset[str]) -> bool:
    return isinstance(kind, str) and kind in kinds


def _is_time(at: object) -> bool:
    return type(at) in (int, float) and 0 <= at < TIME_LIMIT  # type: ignore[operator]


_UP_KINDS = frozenset(Up)
_DOWN_KINDS = frozenset(Down)
