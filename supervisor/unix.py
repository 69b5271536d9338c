"""Unix sockets by path, also where the path is longer than the 107 bytes that an address holds."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS_LIMIT = 107


@contextmanager
def _address(path: Path) -> Iterator[str]:
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
        with _address(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: Path, kind: socket.SocketKind, timeout: float) -> socket.socket:
    """Connect, and send and receive within `timeout` seconds from then on; OSError when nobody listens."""
    connection = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout)
    try:
        with _address(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def is_trusted(connection: socket.socket) -> bool:
    """Whether the other end is this user or root."""
    return peer_user(connection) in {0, os.geteuid()}
