"""The flock of a node: while one supervisor holds it, there is no second one on this state directory."""

import fcntl
import os
from pathlib import Path

from chong.store.errors import ConfigurationError


class NodeLock:
    """Held from construction until `close`; freed by the kernel when the process dies.

    The file stays: its inode is part of what proves a former term dead.
    """

    def __init__(self, path: Path, node: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise ConfigurationError(
                f"node {node!r}: expected no other supervisor on {path.parent}, one runs as process {holder}"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        self.inode = os.fstat(self._descriptor).st_ino

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
