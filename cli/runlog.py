"""The output of one attempt, as it lies on its node's disk, or as it grows there.

Its oldest part may be punched out of the file at any moment, also in the middle of a read: what reads as zeros then was
never written, and is not shown.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from chong.cli.render import escape

_CHUNK = 65_536


class LogReader:
    """Reads on where it stopped; `gone` counts the bytes that were there once and could not be read any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._position = 0
        self.gone = 0

    def close(self) -> None:
        os.close(self._descriptor)

    def seek_tail(self, lines: int) -> None:
        """Go to where the last `lines` lines begin that are there now."""
        end, floor = os.fstat(self._descriptor).st_size, _data_from(self._descriptor, 0)
        self._position = floor if lines else end
        ends_whole = os.pread(self._descriptor, 1, end - 1) == b"\n" if end else False
        position = end - ends_whole  # the newline of the last line begins none
        while lines and position > floor:
            start = max(floor, position - _CHUNK)
            chunk = os.pread(self._descriptor, position - start, start)
            position, at = start, len(chunk)
            while lines and (at := chunk.rfind(b"\n", 0, at)) >= 0:
                lines -= 1
            if not lines:
                self._position = start + at + 1

    def read(self) -> Iterator[bytes]:
        """What has come since, up to what is there now: a task that writes all the time does not keep us for ever."""
        size = os.fstat(self._descriptor).st_size
        if size < self._position:
            self._position = 0  # a file system without holes: the whole log was emptied
        while self._position < size:
            start = _data_from(self._descriptor, self._position)
            skipped = start - self._position
            if skipped < 0:
                return  # emptied meanwhile
            self.gone, self._position = self.gone + skipped, start
            chunk = os.pread(self._descriptor, min(_CHUNK, max(0, size - start)), start)
            if _data_from(self._descriptor, start) != start:
                continue  # it was punched out while we read
            self._position += len(chunk)
            # Large blocks of a file system are zeroed in part where the hole ends.
            rest = chunk.lstrip(b"\0") if skipped else chunk
            self.gone += len(chunk) - len(rest)
            if rest:
                yield rest


def _data_from(descriptor: int, position: int) -> int:
    """The next byte from `position` on that is no hole, or the file's end."""
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.lseek(descriptor, 0, os.SEEK_END)


def tame(text: str) -> str:
    """A log for a terminal: lines and tabs stay, whatever else could command the terminal is escaped."""
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))
