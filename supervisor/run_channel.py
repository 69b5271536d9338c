"""The supervisor's end of a run: frames up and down, and signals, to exactly one worker."""

import os
import select
import signal
import socket
from collections import deque
from datetime import UTC, datetime

from chong.worker.packets import open_channel, receive
from chong.worker.wire import SO_PEEK_OFF

KEEP = -1
"""A frame that is never popped: it stays until the run's end is stored."""
SPOOLING = -2
"""One with a state that is on its way to the node's disk."""


class RunChannel:
    """Owns the socket and the worker's pidfd.

    Frames are peeked at and stay in the socket; each is popped once the task's version that it led to is
    stored. Whoever is killed in between leaves them to the next term.
    """

    def __init__(self, run: str, pid: int, channel: int, pidfd: int) -> None:
        self.run = run
        self.pid = pid
        self.pidfd = pidfd
        self._socket = open_channel(channel)
        # Shared by all copies of the socket: what a former term had peeked at is seen again.
        self._socket.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, 0)
        self._unpopped: deque[int] = deque()
        self._stored = 0
        self.last_number = 0
        self.has_ended = False
        """Nothing of the run is left."""
        self.worker_ended_at: datetime | None = None
        """When that was first seen here."""

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """How many frames were peeked at and lie in the socket still."""
        return len(self._unpopped)

    def sees_end(self) -> bool:
        """Whether the worker is found to have ended, which is told once."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if self.worker_ended_at is not None or not poll.poll(0):
            return False
        self.worker_ended_at = datetime.now(UTC)
        return True

    def peek(self, most: int) -> list[bytes]:
        """Up to so many of the frames that have come since the last call, in order; none behind a last word."""
        frames: list[bytes] = []
        if self._unpopped and self._unpopped[-1] == KEEP:
            return frames
        while len(frames) < most:
            data = receive(self._socket, socket.MSG_PEEK)
            if data is None:
                return frames
            frames.append(data)
        return frames

    def seen(self, version: int) -> None:
        """The next frame peeked at is done with when this version of the task is stored."""
        self._unpopped.append(version)

    def pop_stored(self, version: int) -> None:
        """Take frames out of the socket as far as what they say is stored."""
        self._stored = max(self._stored, version)
        while self._unpopped and 0 <= self._unpopped[0] <= self._stored:
            self._unpopped.popleft()
            receive(self._socket)

    def pop_spooled(self) -> None:
        """The oldest of the states on their way to the disk is there, or will never be."""
        if SPOOLING in self._unpopped:  # the last one may have come from a file
            self._unpopped[self._unpopped.index(SPOOLING)] = 0
        self.pop_stored(0)

    def send(self, data: bytes) -> bool:
        """Send a frame without ever waiting; False when the worker's end is full or gone."""
        for _ in range(2):
            try:
                self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except ConnectionResetError:
                continue  # an old reset, told once: the next try tells the truth
            except OSError:
                return False
            return True
        return False

    def wake(self) -> None:
        """Make the worker look at its channel; ignored by default, so a late one hurts nobody."""
        self.signal(signal.SIGURG, group=False)

    def shut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end is gone already

    def signal(self, number: int, *, group: bool) -> None:
        """Signal the worker, or its group; the group's number is safe until the worker is reaped."""
        try:
            if group:
                os.killpg(self.pid, number)
            else:
                signal.pidfd_send_signal(self.pidfd, number)
        except (ProcessLookupError, PermissionError):
            return  # it has ended, or became another user's: then it stays `stopping` until it ends by itself

    def close(self) -> None:
        self._socket.close()
        os.close(self.pidfd)
