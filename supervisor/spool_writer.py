"""Writes to a node's spool, in a thread of its own: whatever has gathered goes to the disk with one wait for it."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from chong.supervisor.loop import Loop
from chong.supervisor.spool_file import SpoolError, SpoolFile, Statement

LAZY_SECONDS = 0.1
"""What nobody waits for goes with what somebody does, or after this time."""

Then = Callable[[SpoolError | None], object]
"""Told in the loop's thread: None when it is on the disk, else what kept it from there."""


@dataclass(frozen=True, slots=True)
class Write:
    """Statements that belong together; `is_urgent` when somebody waits for them."""

    statements: tuple[Statement, ...]
    then: Then
    is_urgent: bool


class SpoolWriter:
    """Keeps the order in which writes were put; any thread may put one."""

    def __init__(self, file: SpoolFile, loop: Loop) -> None:
        self._file = file
        self._loop = loop
        self._waiting: list[Write] = []
        self._is_urgent = False
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="chong-spool", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> None:
        with self._changed:
            self._waiting.append(write)
            if write.is_urgent and not self._is_urgent:
                self._is_urgent = True
                self._changed.notify()
            elif len(self._waiting) == 1:
                self._changed.notify()

    def close(self, timeout: float) -> bool:
        """Write what is left, in `timeout` seconds; whether that was enough."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            while batch := self._gather():
                told = [partial(write.then, error) for write, error in zip(batch, self._write(batch), strict=True)]
                self._loop.call(partial(_call_all, told))
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing would ever be kept again
            self._loop.fail(error)

    def _gather(self) -> list[Write]:
        """Empty only when nothing is left and nothing more may come."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._changed.wait_for(lambda: self._is_urgent or self._is_closing, LAZY_SECONDS)
            batch, self._waiting, self._is_urgent = self._waiting, [], False
            return batch

    def _write(self, batch: list[Write]) -> list[SpoolError | None]:
        """What one of them meets costs no other: where they cannot go together each goes alone."""
        error = self._try([statement for write in batch for statement in write.statements])
        if error is None or len(batch) == 1:
            return [error] * len(batch)
        return [self._try(write.statements) for write in batch]

    def _try(self, statements: Iterable[Statement]) -> SpoolError | None:
        try:
            self._file.write(statements)
        except SpoolError as error:
            return error
        return None


def _call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    for callback in callbacks:
        callback()
