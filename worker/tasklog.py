"""The logger behind `ctx.log`; its own file, because structlog is imported only by tasks that use it."""

import sys
from typing import Any, TextIO

import structlog


def open_log(stream: TextIO | None = None, /, **ids: Any) -> Any:
    """To standard output, or another stream; apart from structlog's global configuration: that is the task's own."""
    return structlog.wrap_logger(
        structlog.PrintLogger(stream or sys.stdout),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.BoundLogger,
    ).bind(**ids)
