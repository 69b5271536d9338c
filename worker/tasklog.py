"""The logger behind `ctx.log`; its own file, because structlog is imported only by tasks that use it."""

import sys
from typing import Any

import structlog


def open_log(**ids: Any) -> Any:
    """Apart from structlog's global configuration: that is the task's own."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stdout),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.BoundLogger,
    ).bind(**ids)
