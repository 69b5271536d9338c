"""The supervisor's own log: named events with facts, for people on a terminal and as JSON lines elsewhere.

Lines are written by a thread behind a bounded queue: a reader that has stopped, or a full disk, costs lines, which
are counted, and never the main loop.
"""

import logging
import os
import queue
import sys
import threading
from typing import Any

import structlog

BOUND = 10_000


class LogWriter:
    """A file-like object whose `write` never waits.

    Its thread writes to the descriptor itself: blocked inside `sys.stderr` it would hold a lock that the interpreter
    takes at its exit, and the supervisor would never end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(BOUND)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="chong-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1
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
        while (text := self._lines.get()) is not None:
            if self._dropped:
                text = f"{text.rstrip()} [{self._dropped} lines dropped before this one]\n"
                self._dropped = 0
            try:
                self._write_out(text.encode("utf-8", "backslashreplace"))
            except OSError:
                self._dropped += 1

    def _write_out(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def set_up_logging(form: str) -> LogWriter:
    """Configure structlog for this process; `form` is auto, console or json."""
    stream = sys.stderr
    writer = LogWriter(stream.fileno())
    on_terminal = stream.isatty() if form == "auto" else form == "console"
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty())
        if on_terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=writer),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
    return writer
