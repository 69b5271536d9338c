"""Keeps the logs of what runs below their bounds: their oldest part goes, by punching it out of the file.

The writers are tasks' processes, which append and know nothing of it. A hole keeps the offsets of what stays, so
whoever reads or appends goes on undisturbed. Nothing is read here: the memory that this takes does not depend on how
much is written.
"""

import ctypes
import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

EVERY_SECONDS = 1.0
GENERATION_LOG_MAX = 16 * 1024 * 1024
PAGE = 4096
BLOCK = 512
"""The unit of `st_blocks`, whatever the file system's own is."""

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def punch(descriptor: int, end: int) -> None:
    """Give back the disk of a file's first `end` bytes, which read as zeros from then on; its size stays."""
    if _libc.fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, 0, end) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def surplus(size: int, allocated: int, most: int) -> int:
    """How many of the first bytes of a log have to go so that `most` are left: whole pages, 0 when it is in bounds."""
    return 0 if allocated <= most else max(0, size - most) // PAGE * PAGE


class LogBounds:
    """`logs` tells the growing logs and their bounds at any moment; `ended` has those that will not grow any more.

    `on_trouble` hears of the first log that could not be kept in bounds for a reason, and of no other: it would be one
    line a second for each of them.
    """

    def __init__(
        self,
        *,
        logs: Callable[[], Mapping[Path, int]],
        ended: deque[tuple[Path, int]],
        on_trouble: Callable[[Path, OSError], None],
        cut: Callable[[int, int], None] = punch,
    ) -> None:
        self._logs = logs
        self._ended = ended
        self._on_trouble = on_trouble
        self._cut = cut
        self._told: set[int | None] = set()

    def look(self) -> float:
        """Cut every log that has outgrown its bound; the seconds until the next time."""
        for path, most in [*self._logs().items(), *self._take_ended()]:
            try:
                self._trim(path, most)
            except FileNotFoundError:
                continue  # not made yet, or somebody removed it
            except OSError as error:
                self._tell(path, error)
        return EVERY_SECONDS

    def _take_ended(self) -> Iterator[tuple[Path, int]]:
        while self._ended:
            yield self._ended.popleft()

    def _trim(self, path: Path, most: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            facts = os.fstat(descriptor)
            end = surplus(facts.st_size, facts.st_blocks * BLOCK, most)
            if end:
                self._give_back(descriptor, end)
        finally:
            os.close(descriptor)

    def _give_back(self, descriptor: int, end: int) -> None:
        try:
            self._cut(descriptor, end)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                # A file system without holes: all of it goes, rather than the disk filling up. The writers append,
                # so they go on at the beginning.
                os.ftruncate(descriptor, 0)
            raise

    def _tell(self, path: Path, error: OSError) -> None:
        if error.errno not in self._told:
            self._told.add(error.errno)
            self._on_trouble(path, error)
