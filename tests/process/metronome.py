"""The machine's own lateness, which no promise of chong's covers: it is added to what a test allows."""

import os
import threading
import time
from pathlib import Path
from typing import Self

LOOK = 0.05


class Metronome:
    """How late the machine itself is: the longest time that a thread was kept from a small write to the disk."""

    def __init__(self, directory: Path) -> None:
        self.lateness = 0.0
        self._file = directory / "metronome"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    def _beat(self) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT)
        before = time.monotonic()
        while not self._ended.wait(LOOK):
            os.pwrite(descriptor, b"x", 0)
            os.fsync(descriptor)
            now = time.monotonic()
            self.lateness, before = max(self.lateness, now - before - LOOK), now
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
