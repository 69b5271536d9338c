"""Unix sockets by path, also where the path is longer than the 107 bytes that an address holds."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS_LIMIT = 107
BACKLOG = 1024
BACKLOG_LOOK = 0.02
LINE_LIMIT = 1024 * 1024
"""Bytes of one request on a node's control socket."""


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= ADDRESS_LIMIT:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A listening socket at `path`, for the owner alone; replaces a dead one's."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    try:
        with address_of(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: Path, kind: socket.SocketKind, timeout: float) -> socket.socket:
    """Connect, and send and receive within `timeout` seconds from then on; OSError when nobody listens."""
    connection = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    deadline = time.monotonic() + timeout
    try:
        connection.settimeout(timeout)
        while not is_connected(connection, path):
            if time.monotonic() >= deadline:
                raise TimeoutError("too many wait for an answer at this socket")
            time.sleep(BACKLOG_LOOK)
    except OSError:
        connection.close()
        raise
    return connection


def is_connected(connection: socket.socket, path: Path) -> bool:
    """Try to connect; False while the backlog is full: with a time-out set, the kernel does not wait for room in it."""
    try:
        with address_of(path) as address:
            connection.connect(address)
    except BlockingIOError:
        return False
    return True


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def is_trusted(connection: socket.socket) -> bool:
    """Whether the other end is this user or root."""
    return peer_user(connection) in {0, os.geteuid()}
