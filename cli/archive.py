"""A file of tasks that are about to be removed: JSON Lines, one task each, compressed when its name ends in .gz."""

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chong.store.errors import ConfigurationError, Refused
from chong.store.model import TaskRecord
from chong.store.view import as_json


class Archive:
    """Made with its first tasks; what already exists is never touched.

    It ends with a whole task at every moment but that of a write: what could not be written to its end is cut off
    again. Nothing before its end is ever written over. A compressed one is a sequence of gzip members, as `zcat` and
    Python's gzip read it.
    """

    def __init__(self, path: Path) -> None:
        _check_free(path)
        self._kept = path.with_stem(f"{path.stem}.kept")
        _check_free(self._kept)
        if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
            # Now: without old tasks nobody would hear of it, until there are some.
            raise ConfigurationError(f"--archive: expected a directory that can be written to, got {path.parent}")
        self.path = path
        self._descriptor = -1
        self._size = 0
        self._batch = 0
        """Where those begin that were added last."""

    def add(self, records: Sequence[TaskRecord]) -> None:
        """When this returns they are on the disk; Refused when they cannot be, and then nothing of them is."""
        with self._refusing():
            self._open()
            begin = self._size
            self._append(self._packed(records))
            self._batch = begin

    def keep(self, records: Sequence[TaskRecord]) -> None:
        """Of those that were added last only these stay: who has removed the others has archived them, or will.

        These stand in a file beside it as long as they are not in it: at no moment is one missing, whatever dies.
        """
        with self._refusing():
            if not records:
                self._cut(self._batch)
                return
            data = self._packed(records)
            _write_new(self._kept, data)
            self._cut(self._batch)
            self._append(data)
            self._kept.unlink()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = f"it or in {self._kept}" if self._kept.exists() else "it"
            raise Refused(
                f"archive {self.path}: {error.strerror}; what is not in {where} stays in the store"
            ) from error

    def _packed(self, records: Sequence[TaskRecord]) -> bytes:
        lines = "".join(json.dumps(as_json(record), separators=(",", ":")) + "\n" for record in records).encode()
        return gzip.compress(lines) if self.path.suffix == ".gz" else lines

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = _make(self.path)

    def _append(self, data: bytes) -> None:
        try:
            _write(self._descriptor, data, at=self._size)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)
        self._size = size


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise ConfigurationError(f"--archive: expected a name that is free, {path} exists and is not overwritten")


def _write_new(path: Path, data: bytes) -> None:
    """Whole and on the disk, or not there."""
    descriptor = _make(path)
    try:
        _write(descriptor, data, at=0)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def _make(path: Path) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _sync_directory(path.parent)
    return descriptor


def _write(descriptor: int, data: bytes, *, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
    os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    """The name has to survive a crash, too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
