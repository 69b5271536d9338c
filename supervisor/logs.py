"""The supervisor's own log: named events with facts, for people on a terminal and as JSON lines elsewhere.

Lines are written by a thread behind a bounded queue: a reader that has stopped, or a full disk, costs lines, which
are counted, and never the main loop.
"""

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import structlog

BOUND = 10_000


class LogWriter:
    """A file-like object whose `write` takes one line and never waits; `dropped_line` words how many were lost.

    Its thread writes to the descriptor itself: blocked inside `sys.stderr` it would hold a lock that the interpreter
    takes at its exit, and the supervisor would never end. A line and its newline leave in one system call: other
    supervisors may append to the same file.
    """

    def __init__(self, descriptor: int, dropped_line: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._dropped_line = dropped_line
        self._lines: queue.Queue[str | None] = queue.Queue(BOUND)
        self._dropped = 0
        self._counting = threading.Lock()
        """Around `_dropped`, which those who write and the thread both change; never held over a system call."""
        self._thread = threading.Thread(target=self._run, name="chong-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._drop(1)
        return len(text)

    def flush(self) -> None:
        """Lines leave when they leave; see `close`."""

    def close(self, timeout: float) -> None:
        """Write out what waits, for at most `timeout` seconds."""
        try:
            self._lines.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        text: str | None = ""
        while text is not None:
            text = self._lines.get()
            with self._counting:
                lost, self._dropped = self._dropped, 0
            try:
                if lost:
                    self._write_out(self._dropped_line(lost))
                    lost = 0
                self._write_out(text or "")
            except OSError:
                self._drop(lost + 1)

    def _drop(self, lines: int) -> None:
        with self._counting:
            self._dropped += lines

    def _write_out(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._descriptor, data) :]


def set_up_logging(form: str) -> LogWriter:
    """Configure structlog for this process; `form` is auto, console or json."""
    stream = sys.stderr
    on_terminal = stream.isatty() if form == "auto" else form == "console"
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty())
        if on_terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    processors = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        renderer,
    ]

    def dropped_line(lines: int) -> str:
        said: Any = {"event": "log_lines_dropped", "lines": lines}
        for process in processors:
            said = process(None, "warning", said)
        return f"{said}\n"

    writer = LogWriter(stream.fileno(), dropped_line)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        # Not its PrintLogger: that writes the newline by itself, between lines of others.
        logger_factory=structlog.WriteLoggerFactory(file=writer),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    return writer
