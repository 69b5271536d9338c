"""The output of one attempt, as it lies on its node's disk."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from chong.cli.render import escape

_CHUNK = 65_536


def read_log(path: Path) -> Iterator[bytes]:
    """What is left of the log. Its oldest part may have been punched out of the file, which reads as zeros."""
    with path.open("rb", buffering=0) as file:
        os.lseek(file.fileno(), _first_data(file.fileno()), os.SEEK_SET)
        started = False
        while chunk := file.read(_CHUNK):
            rest = chunk if started else chunk.lstrip(b"\0")
            started = started or bool(rest)
            if rest:
                yield rest


def _first_data(descriptor: int) -> int:
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.lseek(descriptor, 0, os.SEEK_END)


def tame(text: str) -> str:
    """A log for a terminal: lines and tabs stay, whatever else could command the terminal is escaped."""
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))
