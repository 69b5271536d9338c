"""A store for tests and trials that ends with its process.

It is SQLite's own code on a private database in memory, so that what passes here cannot fail on a file for want of
serialisation. One connection serves all threads in turn: each connection to `:memory:` would be a store of its own.
"""

import sqlite3

from chong.store.contract import OnUnreadable, refuse
from chong.store.schema import create_tables
from chong.store.sqlite_session import Connection, Session
from chong.store.sqlite_tables import SqliteTables
from chong.store.table_calls import Clock

CLOSE_SECONDS = 5.0
"""For so long calls under way are waited for."""


class InMemoryTaskStore(SqliteTables):
    """A whole store in memory, for one process."""

    def __init__(self, clock: Clock | None = None, *, on_unreadable: OnUnreadable = refuse) -> None:
        super().__init__(clock, on_unreadable)
        self._only = Session("in memory", _connect)

    def close(self) -> None:
        self._only.end(CLOSE_SECONDS)

    def _session(self) -> Session:
        return self._only


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Connection)
    connection.row_factory = sqlite3.Row
    create_tables(connection)
    return connection
