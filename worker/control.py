"""The forkserver's connection to its supervisor: never blocks, and keeps what does not fit for later."""

import array
import os
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SO_PEERCRED,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)
from typing import Any

from chong.worker.watch import complain
from chong.worker.wire import FRAME_LIMIT, ProtocolError, decode, encode

Descriptors = Callable[[], tuple[int, ...]]
"""Asked when the message leaves: a number kept in the queue might mean another file by then."""

_CREDENTIALS = struct.Struct("iII")


class Gone(Exception):  # noqa: N818 -- an end, not an error
    """The supervisor's end is closed, and everything it had sent was read."""


def accept(listener: int) -> int | None:
    """The next connection of our own user or root; None when there is none waiting."""
    while (descriptor := _next_waiting(listener)) is not None:
        with _borrowed(descriptor) as peer:
            _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size))
        if uid in (0, os.getuid()):
            return descriptor
        os.close(descriptor)
    return None


def _next_waiting(listener: int) -> int | None:
    with _borrowed(listener) as sock:
        sock.setblocking(False)
        try:
            connection, _ = sock.accept()
        except OSError:
            return None
    return connection.detach()


class Control:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.attached = False
        self._queue: deque[tuple[bytes, Descriptors]] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether something lies here until there is room."""
        return bool(self._queue)

    def send(self, message: dict[str, Any], descriptors: Descriptors = tuple) -> None:
        try:
            self._queue.append((encode(message), descriptors))
        except (ProtocolError, UnicodeEncodeError, RecursionError) as error:
            complain(f"{message.get('op')} not sent: {error}")
        self.flush()

    def flush(self) -> None:
        """As much as there is room for. A dead end is not noticed here but by `receive`, after what it had sent."""
        while self._queue:
            data, descriptors = self._queue[0]
            try:
                self._send(data, descriptors())
            except (BrokenPipeError, ConnectionResetError):
                self._queue.clear()
                return
            except OSError:
                return  # no room: of the socket, or for descriptors in flight
            self._queue.popleft()

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when there is none now, Gone at the end, ProtocolError for junk."""
        with _borrowed(self.descriptor) as sock:
            try:
                data = sock.recv(FRAME_LIMIT + 1, MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                return self.receive()  # shown once, before what is queued
            except OSError as error:
                raise Gone from error
        if not data:
            raise Gone
        return decode(data)

    def _send(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        beside = [(SOL_SOCKET, SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        with _borrowed(self.descriptor) as sock:
            sock.sendmsg([data], beside, MSG_DONTWAIT | MSG_NOSIGNAL)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket]:
    """A socket object for one call: one that lived on would close a reused number in a worker."""
    sock = socket(AF_UNIX, SOCK_SEQPACKET, 0, fileno=descriptor)
    try:
        sock.settimeout(None)  # a task module may have called socket.setdefaulttimeout
        yield sock
    finally:
        sock.detach()
