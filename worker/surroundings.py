"""What code that is not ours may change when it is imported, and is put back afterwards."""

import io
import os
import sys
from fcntl import F_DUPFD_CLOEXEC, fcntl

FIRST_OWN = 10
"""Descriptors below are a worker's; what a process has to keep for itself lies above."""


class Surroundings:
    """Descriptors 0 to 2 and what Python writes to them, the working directory, the umask."""

    def __init__(self) -> None:
        self._streams = tuple(fcntl(number, F_DUPFD_CLOEXEC, FIRST_OWN) for number in range(3))
        directory = os.open(".", os.O_PATH | os.O_CLOEXEC)
        self._directory = fcntl(directory, F_DUPFD_CLOEXEC, FIRST_OWN)
        os.close(directory)
        os.umask(mask := os.umask(0))
        self._umask = mask

    def restore(self) -> None:
        """Output is flushed: what lies in a buffer would be printed by every process that is forked from here."""
        for number, copy in enumerate(self._streams):
            os.dup2(copy, number)
        sys.stdout = _usable(sys.stdout, 1)
        sys.stderr = _usable(sys.stderr, 2)
        os.fchdir(self._directory)
        os.umask(self._umask)

    def close(self) -> None:
        for descriptor in (*self._streams, self._directory):
            os.close(descriptor)


def _usable(stream: object, number: int) -> io.TextIOWrapper:
    """Whatever can be flushed is left in its place."""
    try:
        stream.flush()  # type: ignore[attr-defined]
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    except Exception:  # noqa: BLE001 -- closed, None, or something of the module's own
        return open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)
    return stream  # type: ignore[return-value]
