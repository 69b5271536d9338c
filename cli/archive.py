"""A file of tasks that are about to be removed: JSON Lines, one task each, compressed when its name ends in .gz."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

from chong.store.errors import ConfigurationError, Refused
from chong.store.model import TaskRecord
from chong.store.view import as_json


class Archive:
    """Made with its first tasks; what already exists is never touched.

    It ends with a whole task at every moment but that of a write: what could not be written to its end is cut off
    again. A compressed one is a sequence of gzip members, as `zcat` and Python's gzip read it.
    """

    def __init__(self, path: Path) -> None:
        if os.path.lexists(path):
            raise ConfigurationError(f"--archive: expected a name that is free, {path} exists and is not overwritten")
        if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
            # Now: without old tasks nobody would hear of it, until there are some.
            raise ConfigurationError(f"--archive: expected a directory that can be written to, got {path.parent}")
        self._path = path
        self._descriptor = -1
        self._size = 0

    def add(self, records: Sequence[TaskRecord]) -> None:
        """When this returns they are on the disk; Refused when they cannot be, and then nothing of them is."""
        lines = "".join(json.dumps(as_json(record), separators=(",", ":")) + "\n" for record in records).encode()
        data = gzip.compress(lines) if self._path.suffix == ".gz" else lines
        try:
            self._open()
            self._write(data)
        except OSError as error:
            raise Refused(f"archive {self._path}: {error.strerror}; what is not in it stays in the store") from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _sync_directory(self._path.parent)

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            raise
        self._size += len(data)


def _sync_directory(directory: Path) -> None:
    """The name has to survive a crash, too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
