"""A connection to a PostgreSQL server that waits no longer than it may, and reads and writes as chong does.

A call that is not answered in time is given up on this side: a frozen server, or a network that swallows packets,
keeps no promise of its own.
"""

import contextlib
import logging
import time
from collections import deque
from typing import Any, Self, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.abc import Loader as AbcLoader
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import DictRow, dict_row
from psycopg.types.string import TextLoader

from chong.store.errors import StoreError

# The driver's own remarks would go to standard error, beside the one line of an error; what matters of them is in it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_CANCEL_SECONDS = 1.0
_SETTLE_SECONDS = 5.0


class Lenient(Loader):
    """Gives the text of a value that Python cannot hold, such as `infinity`: whoever reads the row names it then."""

    strict: type[AbcLoader]

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._strict = self.strict(oid, context)

    def load(self, data: Buffer) -> Any:
        try:
            return self._strict.load(data)
        except psycopg.DataError:
            return bytes(data).decode()


def _lenient(kind: str) -> type[Lenient]:
    oid = psycopg.adapters.types[kind].oid
    strict = psycopg.adapters.get_loader(oid, Format.TEXT)
    assert strict is not None, f"the driver reads every {kind}"
    return type(f"Lenient{kind.capitalize()}", (Lenient,), {"strict": strict})


_LENIENT = {kind: _lenient(kind) for kind in ("timestamptz", "interval")}


_READABLE = {"DateStyle": "ISO", "IntervalStyle": "postgres"}
"""How times have to be written for the driver. Both are set for the session, as a pooler keeps them for its client."""


class Cursor(psycopg.Cursor[DictRow]):
    """Rows may be read when the call is over: one that the driver cannot read is told in chong's own words then."""

    def fetchall(self) -> list[DictRow]:
        try:
            return super().fetchall()
        except psycopg.DataError as error:
            raise StoreError(f"store: a row cannot be read: {' '.join(str(error).split())}") from error


class Connection(psycopg.Connection[DictRow]):
    """A connection whose waits end at `until` (by the monotonic clock), whatever the server does."""

    until: float | None = None
    seconds = 0.0
    """How long the call under way may take, for the words about it."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is None and self.until is not None:
            timeout = max(0.0, self.until - time.monotonic())
        try:
            return super().wait(gen, interval=interval, timeout=timeout)
        except psycopg.OperationalError as error:
            if self.until is None or time.monotonic() < self.until:
                raise
            self._give_up(gen)
            raise psycopg.OperationalError(f"expected an answer within {self.seconds:g} s, got none") from error

    def _give_up(self, gen: Any) -> None:
        """Nobody waits for the answer any more: the server need not go on, and what it says later is not for us."""
        if not self.closed:
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=_CANCEL_SECONDS)
            self.close()
        # Here, because a generator that is left to the collector complains about the closed connection.
        with contextlib.suppress(psycopg.Error, RuntimeError):
            gen.close()

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, failures: deque[psycopg.Error] | None = None, **more: Any
    ) -> Self:
        """Connect; a failure is left in `failures` too, because the pool tells nobody why it has no connection."""
        try:
            return cls._settled(conninfo, **more)
        except psycopg.Error as error:
            if failures is not None:
                failures.append(error)
            raise

    @classmethod
    def _settled(cls, conninfo: str, **more: Any) -> Self:
        """One that reads and writes as chong does, whatever a database, a role or a variable says."""
        connection = super().connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,
            row_factory=cast("Any", dict_row),
            **(more | {"client_encoding": "UTF8"}),
        )
        connection.cursor_factory = Cursor
        # A transaction that locks, and then looks, has to see what it has waited for.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        for kind in ("json", "jsonb", "uuid"):
            connection.adapters.register_loader(kind, TextLoader)
        for kind, loader in _LENIENT.items():
            connection.adapters.register_loader(kind, loader)
        connection.until, connection.seconds = time.monotonic() + _SETTLE_SECONDS, _SETTLE_SECONDS
        try:
            for setting, wanted in _READABLE.items():
                told = connection.info.parameter_status(setting) or wanted
                if told.partition(",")[0] != wanted:
                    connection.execute(cast("Any", f"SET {setting} TO {wanted}"))
        except BaseException:
            connection.close()
            raise
        connection.until = None
        return connection
