"""One forkserver as its supervisor sees it: a control connection, and what travels over it."""

import array
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from chong.supervisor import reports
from chong.supervisor.loop import Loop
from chong.worker.unix import connect, is_trusted
from chong.worker.wire import FRAME_LIMIT, Order, ProtocolError, decode, encode

T = TypeVar("T")

MAX_DESCRIPTORS = 4
CONNECT_SECONDS = 5.0


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

    def attach(self, timeout: float) -> list[reports.Worker]:
        """Take a former term's forkserver over: its hello, then its unreleased runs.

        It is not asked for new runs, so it does not count this term as served. It may speak another protocol:
        what is needed to hold its runs to their end never changes between versions.

        OSError or ProtocolError when it does not answer in time, or not sensibly.
        """
        deadline = time.monotonic() + timeout
        workers: list[reports.Worker] = []
        try:
            self.greet(self._receive_by(deadline, reports.Hello), None)
            while isinstance(told := self._receive_by(deadline, reports.Worker, reports.Attached), reports.Worker):
                workers.append(told)
        except BaseException:
            for worker in workers:
                reports.close_all(worker.descriptors)
            self.close()
            self.let_leash_go()
            raise
        return workers

    def greet(self, hello: reports.Hello, term: str | None) -> None:
        """Take the hello in and answer it; without a `term` when it will not be asked for new runs."""
        if self._leash >= 0:
            reports.close_all(hello.descriptors)
            raise ProtocolError(f"forkserver at {self.path}: expected one hello, got another one")
        self._leash = hello.leash
        self.protocol, self.pid = hello.protocol, hello.pid
        self.served, self.catalogue = hello.served, hello.catalogue
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError as error:
            raise ProtocolError(f"forkserver at {self.path}: process {self.pid} cannot be watched: {error}") from error
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

    def receive(self) -> Iterator[reports.Told]:
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

    def _receive_by(self, deadline: float, *expected: type[T]) -> T:
        self._connection.settimeout(max(0.001, deadline - time.monotonic()))
        told = self._receive()
        if not isinstance(told, expected):
            reports.close_all(told.descriptors)
            names = " or ".join(kind.__name__.lower() for kind in expected)
            raise ProtocolError(f"forkserver at {self.path}: expected {names}, got {type(told).__name__.lower()}")
        return told

    def _receive(self) -> reports.Told:
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
                raise ProtocolError("descriptors were lost, this process has too many open")
            body = decode(data)
        except ProtocolError as error:
            reports.close_all(tuple(descriptors))
            raise ProtocolError(f"forkserver at {self.path}: {error}") from error
        try:
            return reports.parse(body, tuple(descriptors))
        except ProtocolError as error:
            raise ProtocolError(f"forkserver at {self.path}: {error}") from error
