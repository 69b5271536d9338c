"""Following a task's output: attempt after attempt, until the task is over and all was printed."""

import codecs
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from chong.cli.ending import one_line
from chong.cli.runlog import LogReader, tame
from chong.cli.screen import remark
from chong.store.errors import StoreUnavailable
from chong.store.model import TaskSnapshot

POLL_SECONDS = 0.2


class Output:
    """Bytes to a stream: on a terminal harmless text, else as they are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace") if stream.isatty() else None

    def write(self, data: bytes) -> None:
        if self._decoder is None:
            self._stream.buffer.write(data)
        else:
            self._stream.write(tame(self._decoder.decode(data)))

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Nothing follows: the beginning of a character is all that there will be of it."""
        if self._decoder is not None:
            self._stream.write(tame(self._decoder.decode(b"", final=True)))
            self._decoder.reset()


def pour(reader: LogReader, output: Output) -> None:
    """Print all that is there now."""
    for chunk in reader.read():
        output.write(chunk)
    output.flush()


class Follower:
    """`look` reads the task, `log_of` says where an attempt's log lies; `tail`: only so many of the lines there are."""

    def __init__(
        self,
        look: Callable[[], TaskSnapshot],
        log_of: Callable[[int], Path],
        output: Output,
        *,
        tail: int | None = None,
    ) -> None:
        self._look = look
        self._log_of = log_of
        self._output = output
        self._tail = tail

    def follow(self, task: TaskSnapshot, attempt: int | None = None) -> TaskSnapshot:
        """One attempt to its end; with None the latest one and all that come after it. Returns the task at the end."""
        current = attempt or max(task.attempt, 1)
        while True:
            task = self._follow_one(task, current)
            if attempt is not None or (task.status.is_final and task.attempt <= current):
                return task
            # What the task is by now may be the next attempt's doing.
            what = f", the task is {one_line(task)}" if task.attempt == current else ""
            remark(f"chong: attempt {current} is over{what}; going on with the next one")
            current += 1

    def _follow_one(self, task: TaskSnapshot, attempt: int) -> TaskSnapshot:
        """Returns the task as it was when this attempt was over."""
        reader: LogReader | None = None
        is_over = False
        try:
            while not is_over:
                # In this order: what was written before the end is there to be read after it.
                task = self._look_again() or task
                is_over = has_ended(task, attempt)
                if reader is None:
                    reader = self._open(attempt)
                if reader is not None:
                    pour(reader, self._output)
                if not is_over:
                    time.sleep(POLL_SECONDS)
        finally:
            if reader is not None:
                tell_gone(reader)
                reader.close()
            self._output.finish()
        return task

    def _look_again(self) -> TaskSnapshot | None:
        """None while the store is away: the task goes on, and so does its output."""
        try:
            return self._look()
        except StoreUnavailable:
            return None

    def _open(self, attempt: int) -> LogReader | None:
        """None as long as there is no file: the attempt has not begun."""
        try:
            reader = LogReader(self._log_of(attempt))
        except FileNotFoundError:
            return None
        if self._tail is not None:
            reader.seek_tail(self._tail)
            self._tail = None
        return reader


def has_ended(task: TaskSnapshot, attempt: int) -> bool:
    """Whether the end of this attempt is stored."""
    if task.status.is_final or task.attempt > attempt:
        return True
    return task.attempt == attempt and task.status.is_waiting


def tell_gone(reader: LogReader) -> None:
    if reader.gone:
        remark(f"chong: {reader.gone} bytes of this log are gone, the oldest go first (log_max)")
