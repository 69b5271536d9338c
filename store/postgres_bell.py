"""A bell that PostgreSQL rings when a command for a node is stored: it only shortens a wait, polling is the truth.

It needs a connection of its own that stays: through a pooler that gives each transaction another one it is silent.
"""

import contextlib
import math
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import conninfo, sql

from chong.store.postgres_connection import Connection

_RETRY_SECONDS = 1.0


class Bell:
    """For one thread. `wait` never fails: while the server is away nothing rings.

    deadline: seconds that the server may take to connect, and as many again to listen.
    """

    def __init__(self, parts: Mapping[str, Any], node: str, *, deadline: float) -> None:
        self._address = conninfo.make_conninfo("", **{**parts, "connect_timeout": math.ceil(deadline)})
        self._deadline = deadline
        # As in the query submit_command; hashed, because a node's name may be longer than a channel's.
        self._channel = f"chong_{sha256(node.encode()).hexdigest()[:40]}"
        self._connection: Connection | None = None

    def wait(self, timeout: float) -> bool:
        """Whether it rang within so many seconds. True as well after a connection was made: it may have rung before."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._listening()
                return True
            return any(self._connection.notifies(timeout=timeout, stop_after=1))
        except psycopg.Error:
            self.close()
            time.sleep(min(timeout, _RETRY_SECONDS))
            return False

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _listening(self) -> Connection:
        connection = Connection.connect(self._address)
        try:
            connection.until, connection.seconds = time.monotonic() + self._deadline, self._deadline
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except BaseException:
            # Nobody else knows of it: each try would leave the server another one.
            connection.close()
            raise
        connection.until = None  # a wait for a ring that does not come is no call without an answer
        return connection
