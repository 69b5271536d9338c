"""One forkserver as its supervisor sees it: a control connection, and what travels over it."""

import array
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chong.supervisor.loop import Loop
from chong.supervisor.unix import connect, is_trusted
from chong.worker.wire import FRAME_LIMIT, Order, ProtocolError, Report, decode, encode

MAX_DESCRIPTORS = 4
CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Message:
    """One report and the descriptors beside it, which are the receiver's to close."""

    op: Report
    body: dict[str, Any]
    descriptors: tuple[int, ...]

    def close(self) -> None:
        """Nobody takes its descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Generation:
    """Owns the connection, the leash's write end and the forkserver's pidfd.

    Usable before its hello: orders wait in the socket. `served` are the terms that had runs forked from it before,
    `heard` is how many messages have come from it.
    """

    def __init__(self, number: int, path: Path, connection: socket.socket) -> None:
        self.number = number
        self.path = path
        self.pid: int | None = None
        self.protocol: int | None = None
        self.served: frozenset[str] = frozenset()
        self.catalogue: Path | None = None
        self.heard = 0
        self._connection = connection
        self._pidfd = -1
        self._leash = -1
        self._unsent: deque[bytes] = deque()
        self._loop: Loop | None = None

    @classmethod
    def at(cls, number: int, path: Path, timeout: float = CONNECT_SECONDS) -> "Generation":
        """Connect to the forkserver that listens at `path`; OSError when there is none, or not ours."""
        connection = connect(path, socket.SOCK_SEQPACKET, timeout)
        if not is_trusted(connection):
            connection.close()
            raise PermissionError(f"{path}: the forkserver belongs to another user")
        return cls(number, path, connection)

    def attach(self, timeout: float) -> list[Message]:
        """Take a former term's forkserver over: its hello, then one WORKER message per unreleased run.

        It is not asked for new runs, so it does not count this term as served. It may speak another protocol:
        what is needed to hold its runs to their end never changes between versions.

        OSError or ProtocolError when it does not answer in time, or not sensibly.
        """
        deadline = time.monotonic() + timeout
        workers: list[Message] = []
        try:
            self.greet(self._receive_by(deadline, Report.HELLO), None)
            while (message := self._receive_by(deadline)).op is not Report.ATTACHED:
                workers.append(message)
        except BaseException:
            for message in workers:
                message.close()
            self.close()
            self.let_leash_go()
            raise
        return workers

    def greet(self, hello: Message, term: str | None) -> None:
        """Take the hello in and answer it; without a `term` when it will not be asked for new runs."""
        if len(hello.descriptors) != 1:
            hello.close()
            raise ProtocolError(f"forkserver at {self.path}: expected its leash beside its hello, got none")
        self._leash = hello.descriptors[0]
        try:
            self.protocol = int(hello.body["protocol"])
            self.pid = int(hello.body["pid"])
            self.served = frozenset(map(str, hello.body["served"]))
            self.catalogue = Path(hello.body["catalogue"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"forkserver at {self.path}: its hello is not understood: {error!r}") from error
        self._pidfd = os.pidfd_open(self.pid)
        self.order(Order.ATTACH, term=term)

    def watch(self, loop: Loop, on_readable: Any) -> None:
        """From now on `on_readable` is called when there is something to `receive`."""
        self._loop = loop
        self._connection.setblocking(False)

        def turn() -> None:
            self._flush()
            on_readable()

        loop.watch(self._connection.fileno(), turn, write=True)

    def order(self, op: Order, **body: Any) -> None:
        """Send an order without waiting; what the socket does not take is sent when it can."""
        self._unsent.append(encode({"op": op, **body}))
        self._flush()

    def receive(self) -> Iterator[Message]:
        """All messages that have come; raises EOFError when the forkserver has gone, after the last one."""
        while True:
            try:
                yield self._receive()
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # told once, before what is queued; the end follows

    @property
    def is_closed(self) -> bool:
        return self._connection.fileno() < 0

    def is_alive(self) -> bool:
        """Whether the process exists; before its hello nobody knows it, then it counts as alive."""
        if self._pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    def kill(self) -> None:
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                return  # dead already

    def close(self) -> None:
        if self._loop is not None:
            self._loop.forget(self._connection.fileno())
        self._connection.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def let_leash_go(self) -> None:
        """Close the leash: when the forkserver is gone too, the kernel ends its workers."""
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1

    def _flush(self) -> None:
        while self._unsent:
            try:
                self._connection.send(self._unsent[0], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()  # it has gone; reading says so too, after what it had sent before
                return
            self._unsent.popleft()

    def _receive_by(self, deadline: float, expected: Report | None = None) -> Message:
        self._connection.settimeout(max(0.001, deadline - time.monotonic()))
        message = self._receive()
        if expected is not None and message.op is not expected:
            message.close()
            raise ProtocolError(f"forkserver at {self.path}: expected {expected}, got {message.op}")
        return message

    def _receive(self) -> Message:
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        data, ancillary, flags, _ = self._connection.recvmsg(FRAME_LIMIT + 1, space, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise EOFError
        self.heard += 1
        descriptors = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        try:
            if flags & socket.MSG_CTRUNC:  # out of descriptors: they are gone without a word
                raise ProtocolError(f"forkserver at {self.path}: descriptors were lost, this process has too many open")
            body = decode(data)
            return Message(Report(body.pop("op", None)), body, tuple(descriptors))
        except (ProtocolError, ValueError) as error:
            for descriptor in descriptors:
                os.close(descriptor)
            raise ProtocolError(f"forkserver at {self.path}: {error}") from error
