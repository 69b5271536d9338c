"""The worker's end W of its run's socket: numbered frames up, the newest word from above down."""

import struct
import threading
from collections import deque
from collections.abc import Callable
from fcntl import ioctl
from os import write
from select import POLLIN, poll
from socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_SEQPACKET, socket
from termios import TIOCOUTQ
from time import sleep
from typing import Any

from chong.worker.clock import time
from chong.worker.wire import FRAME_LIMIT, Down, DownFrame, ProtocolError, Up, decode_down, embed_up

UNREAD_LIMIT = 16 * 1024
"""Bytes that may lie unread before checkpoints wait; a result still finds room behind them."""


class Channel:
    """Reads and writes are each one critical section: see `when_free`."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket(AF_UNIX, SOCK_SEQPACKET, 0, fileno=descriptor)
        self._socket.settimeout(None)  # a task module may have called socket.setdefaulttimeout
        self._poll = poll()
        self._poll.register(descriptor, POLLIN)
        self._lock = threading.RLock()
        self._late = False
        self._number = 0
        self._newest = (-1, -1)
        self.when_free: Callable[[], None] = lambda: None  # what an interruption does that had to wait
        self.noted = True  # a frame may lie here: what was sent before the handler stood made no note
        self.closed = False
        self.go: dict[str, Any] | None = None
        self.stop: DownFrame | None = None
        self.inbox: deque[DownFrame] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Give the descriptor back, in a process that lives on."""
        self._socket.close()

    def note(self, _signal: int, _frame: object) -> None:
        """SIGURG: take note; checkpoints act."""
        self.noted = True

    def send(self, kind: Up, texts: dict[str, str] | None = None) -> bool:
        """One frame with these fields of JSON text; False when nobody can ever read it."""
        with self._lock:
            sent = self._send(kind, texts or {})
        self._raise_late()
        return sent

    def next_frame(self, kind: Up, texts: dict[str, str]) -> bytes:
        """What `send` would send now; once that has happened, this is an old frame by its number."""
        with self._lock:
            data = embed_up(kind, self._number + 1, time(), texts)
        self._raise_late()
        return data

    def read(self) -> None:
        """Sort in all that has come."""
        with self._lock:
            self.noted = False
            while (data := self._receive()) is not None:
                self._sort(data)
        self._raise_late()

    def wait(self, seconds: float | None) -> None:
        """Until something can be read, or for so long; a closed channel only passes the time."""
        if self.closed:
            sleep(60 if seconds is None else seconds)
        elif self._poll.poll(None if seconds is None else seconds * 1000):
            self.noted = True

    def has_room(self) -> bool:
        """Whether so little is unread that a frame will not block, nor bury a later one."""
        unread: int = struct.unpack("i", ioctl(self._socket.fileno(), TIOCOUTQ, b"\0\0\0\0"))[0]
        return unread <= UNREAD_LIMIT

    def is_free(self) -> bool:
        """Whether a signal handler may raise now; if not, `when_free` does so at the section's end.

        An exception between a number and its frame would lose the one or use the other twice.
        """
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001
        self._late = owned
        return not owned

    def _raise_late(self) -> None:
        if self._late:
            self._late = False
            self.when_free()

    def _send(self, kind: Up, texts: dict[str, str]) -> bool:
        data = embed_up(kind, self._number + 1, time(), texts)
        self._number += 1
        for _ in range(2):
            try:
                self._socket.send(data, MSG_NOSIGNAL)
            except ConnectionResetError:
                continue  # shown once, perhaps for something else: the next try tells the truth
            except OSError:
                return False
            return True
        return False

    def _receive(self) -> bytes | None:
        try:
            data = self._socket.recv(FRAME_LIMIT + 1, MSG_DONTWAIT)
        except ConnectionResetError:
            return self._receive()  # shown once, before what is queued
        except OSError:
            return None
        if not data:
            self.closed = True
            return None
        return data

    def _sort(self, data: bytes) -> None:
        try:
            frame = decode_down(data)
        except ProtocolError as error:
            write(2, f"chong: {error}\n".encode())
            return
        if frame.number <= self._newest:
            return
        self._newest = frame.number
        if frame.kind is Down.GO:
            self.go = self.go or frame.body
        elif frame.kind is Down.STOP:
            self.stop = frame
        else:
            self.inbox.append(frame)
