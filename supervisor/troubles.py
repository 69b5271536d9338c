"""Troubles with the node's own disk that cost only what they say, as the log tells them."""

import structlog

from chong.supervisor.recurring import Recurring


class Troubles:
    """One `Recurring` each, by its event: on a full disk they come with every task."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        troubles = (
            Recurring(log, "spool_not_dropped", "spool_dropped", grave=True, concerns_many=True),
            Recurring(log, "spool_not_pruned", "spool_pruned", grave=True, concerns_many=True),
            Recurring(log, "stored_not_marked", "stored_marked", grave=True, concerns_many=True),
            Recurring(log, "term_not_marked", "term_marked", grave=True, concerns_many=True),
            Recurring(log, "unsent_not_kept", "unsent_kept", grave=True, concerns_many=True),
        )
        self._recurring = {trouble.event: trouble for trouble in troubles}

    def complain(self, event: str, error: Exception | None) -> None:
        """`error` is None when it went well."""
        if error is not None:
            self._recurring[event].again(error)
        else:
            self._recurring[event].end()
