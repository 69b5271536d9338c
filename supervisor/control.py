"""The node's control socket: one request per line of JSON, one line back; only the node's own user and root."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from chong.store.errors import (
    ChongError,
    ConfigurationError,
    Refused,
    StoreUnavailable,
    UniqueKeyTaken,
    UnknownId,
)
from chong.supervisor.catalogue import UnknownTask
from chong.supervisor.loop import Loop
from chong.supervisor.unknown_group import UnknownGroup
from chong.worker.unix import LINE_LIMIT, is_trusted, listen

CHUNK = 64 * 1024
MAX_CALLERS = 500
ACCEPT_AGAIN = 0.1
CHUNKS_A_TURN = 2
UNSENT_LIMIT = 1024 * 1024


class Answer(Protocol):
    """How one request is answered: called once."""

    def __call__(self, content: dict[str, Any], /) -> None: ...

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Let `callback` hear when whoever asked has gone before the answer."""


Handler = Callable[[dict[str, Any], Answer], None]


class Control:
    """Listens at `path`; `handler` gets each request and answers it, at once or later, in the loop's thread."""

    def __init__(self, loop: Loop, path: Path, handler: Handler) -> None:
        self._loop = loop
        self._path = path
        self._handler = handler
        self._callers: set[_Caller] = set()
        self._listen()

    def restore(self) -> bool:
        """Listen again when the socket's name is gone, as when somebody cleared the directory; True when it was."""
        if self._path.exists():
            return False
        self._stop_listening()
        self._listen()
        return True

    def close(self) -> None:
        self._stop_listening()
        self._path.unlink(missing_ok=True)
        for caller in list(self._callers):
            caller.close()

    def _listen(self) -> None:
        self._listener = listen(self._path, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._loop.watch(self._listener.fileno(), self._accept)

    def _stop_listening(self) -> None:
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # out of descriptors: whoever waits is not announced again
                self._loop.later(ACCEPT_AGAIN, self._accept)
                return
            if len(self._callers) >= MAX_CALLERS or not is_trusted(connection):
                connection.close()
                continue
            caller = _Caller(self._loop, connection, self._handler, self._callers.discard)
            self._callers.add(caller)
            caller.read()


class _Caller:
    """One connection: reads lines, writes answers, never waits for a slow reader."""

    def __init__(
        self, loop: Loop, connection: socket.socket, handler: Handler, on_close: Callable[["_Caller"], None]
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._handler = handler
        self._on_close = on_close
        self._received = bytearray()
        self._unsent = bytearray()
        self._is_open = True
        self._awaited: dict[_Answer, Callable[[], None]] = {}
        connection.setblocking(False)
        loop.watch(connection.fileno(), self._turn, write=True)

    def read(self) -> None:
        """Read what has come, but no more than is fair to others; the rest follows in the next turn of the loop."""
        for _ in range(CHUNKS_A_TURN):
            if not self._is_open or len(self._unsent) > UNSENT_LIMIT:
                return  # whoever does not take its answers asks nothing more: `_turn` comes when they have left
            try:
                data = self._connection.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            self._received += data
            self._handle_lines()
        self._loop.call(self.read)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.forget(self._connection.fileno())
            self._connection.close()
            self._on_close(self)
            awaited, self._awaited = self._awaited, {}
            for gone in awaited.values():
                gone()

    def answer(self, answer: "_Answer", content: dict[str, Any]) -> None:
        self._awaited.pop(answer, None)
        self._answer(content)

    def await_end(self, answer: "_Answer", gone: Callable[[], None]) -> None:
        """Call `gone` when this closes before the answer was given."""
        if self._is_open:
            self._awaited[answer] = gone
        else:
            gone()

    def _turn(self) -> None:
        self._flush()
        self.read()

    def _handle_lines(self) -> None:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._handle(line)
        if len(self._received) > LINE_LIMIT:
            self._answer(failure(ConfigurationError(f"request: expected at most {LINE_LIMIT} bytes, got more")))
            self.close()

    def _handle(self, line: bytes) -> None:
        try:
            if len(line) > LINE_LIMIT:
                raise ConfigurationError(f"request: expected at most {LINE_LIMIT} bytes, got {len(line)}")
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ConfigurationError(f"request: expected a JSON object, got {line[:40]!r}")
        except (ValueError, RecursionError) as error:
            self._answer(failure(ConfigurationError(f"request: expected one line of JSON: {error}"[:500])))
        except ConfigurationError as error:
            self._answer(failure(error))
        else:
            self._handler(request, _Answer(self))

    def _answer(self, content: dict[str, Any]) -> None:
        if self._is_open:
            self._unsent += json.dumps(content, separators=(",", ":")).encode() + b"\n"
            self._flush()

    def _flush(self) -> None:
        while self._unsent and self._is_open:
            try:
                sent = self._connection.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            del self._unsent[:sent]


class _Answer:
    def __init__(self, caller: _Caller) -> None:
        self._caller = caller

    def __call__(self, content: dict[str, Any], /) -> None:
        self._caller.answer(self, content)

    def on_gone(self, callback: Callable[[], None]) -> None:
        self._caller.await_end(self, callback)


def failure(error: ChongError) -> dict[str, Any]:
    """An error as the answer to a request. `kind` names what a program may want to tell from other refusals."""
    codes = ((Refused, "refused"), (ConfigurationError, "configuration"), (StoreUnavailable, "unavailable"))
    kinds = (
        (UnknownId, "unknown_task"),
        (UnknownTask, "unknown_task"),
        (UnknownGroup, "unknown_group"),
        (UniqueKeyTaken, "unique_key_taken"),
    )
    code = next((code for kind, code in codes if isinstance(error, kind)), "refused")
    told = {"ok": False, "code": code, "error": str(error)}
    return told | next(({"kind": word} for kind, word in kinds if isinstance(error, kind)), {})
