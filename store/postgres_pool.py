"""A pool of connections to a PostgreSQL server: a deadline on every call, errors in chong's own words.

What timed out, failed, or turned read-only is thrown away; the next call gets another connection. Nothing is kept in a
session between two calls, so a pooler may give each transaction another server.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, cast

import psycopg
import psycopg_pool
from psycopg import conninfo, errors
from psycopg.rows import DictRow

from chong.store.errors import ConfigurationError, Refused, StoreError, StoreUnavailable
from chong.store.postgres_address import label_of
from chong.store.postgres_connection import Connection
from chong.store.postgres_errors import LOOKS, WRITES, refusal, translated, unfit

_MAX_CONNECTIONS = 4
_IDLE_SECONDS = 60.0
_LIFE_SECONDS = 30 * 60.0
_STEP_SECONDS = 0.05

# Not kept to: the connection, or the server behind it, is no good for the next call either.
_HARMLESS = (
    errors.DataError,
    errors.IntegrityError,
    errors.ProgramLimitExceeded,
    errors.LockNotAvailable,
    errors.DeadlockDetected,
)


class Statements:
    """A call's connection, as `tables.Database` wants it; `always` are values for every query."""

    def __init__(self, connection: Connection, always: Mapping[str, Any]) -> None:
        self._connection = connection
        self._always = always

    def execute(self, query: str, values: Mapping[str, Any], /) -> psycopg.Cursor[DictRow]:
        return self._connection.execute(cast("Any", query), {**values, **self._always})

    def executemany(self, query: str, rows: Iterable[Mapping[str, Any]], /) -> None:
        self._connection.cursor().executemany(cast("Any", query), [{**row, **self._always} for row in rows])


class Unhurried:
    """Statements of one transaction, before each of which `renew` sets another deadline."""

    def __init__(self, statements: Statements, renew: Callable[[], None]) -> None:
        self._statements = statements
        self._renew = renew

    def execute(self, query: str, values: Mapping[str, Any], /) -> psycopg.Cursor[DictRow]:
        self._renew()
        return self._statements.execute(query, values)

    def executemany(self, query: str, rows: Iterable[Mapping[str, Any]], /) -> None:
        self._renew()
        self._statements.executemany(query, rows)


@dataclass(slots=True)
class Acquaintance:
    """What the pools of one store have learnt of its database, each from the others."""

    is_recognised: bool = False


class Pool:
    """Up to `size` connections for the threads of one process; `check` looks at the first of them.

    deadline: seconds that a call may take, its wait for a connection included.
    clock: stands in for the server's, in tests: each call takes its time from it.
    known: shared by the pools of one store.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        *,
        deadline: float,
        size: int = _MAX_CONNECTIONS,
        clock: Callable[[], datetime] | None = None,
        check: Callable[[Connection], None],
        known: Acquaintance,
    ) -> None:
        self._parts = parts
        self.label = label_of(parts)
        self._deadline = deadline
        self._limits = {"milliseconds": str(int(deadline * 1000))}
        self._clock = clock
        self._check = check
        self._known = known
        self._failures: deque[psycopg.Error] = deque(maxlen=1)
        self._pid = os.getpid()
        self._under_way = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._pool = psycopg_pool.ConnectionPool(
            conninfo.make_conninfo("", **parts),
            connection_class=Connection,
            kwargs={"failures": self._failures},
            min_size=0,
            max_size=size,
            open=False,
            max_idle=_IDLE_SECONDS,
            max_lifetime=_LIFE_SECONDS,
            # No attempt goes on behind the callers' backs: each call tries anew, so none waits out a pause.
            reconnect_timeout=0,
            num_workers=1,
        )
        self._pool.open(wait=False)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Statements]:
        """Single statements that write nothing, each on the state of its own moment."""
        with self._call() as connection:
            yield self._statements(connection)

    @contextlib.contextmanager
    def surveying(self, isolation: str, limits: str) -> Iterator[Statements]:
        """A transaction that only reads, on the state of one moment."""
        with self._call() as connection, connection.transaction():
            statements = self._statements(connection)
            statements.execute(isolation, {})
            statements.execute(limits, self._limits)
            yield statements

    @contextlib.contextmanager
    def writing(self, limits: str) -> Iterator[Statements]:
        """A transaction in one round trip as long as nothing is read within; `limits` bounds it on the server too."""
        with self._call(WRITES) as connection, connection.pipeline(), connection.transaction():
            statements = self._statements(connection)
            statements.execute(limits, self._limits)
            yield statements

    @contextlib.contextmanager
    def writing_long(self, limits: str) -> Iterator[Unhurried]:
        """As `writing`, but every statement has the deadline of a call for itself."""
        with self._call(WRITES) as connection, connection.transaction():
            statements = Unhurried(self._statements(connection), partial(self._renew, connection))
            statements.execute(limits, self._limits)
            yield statements

    def _renew(self, connection: Connection) -> None:
        connection.until = time.monotonic() + self._deadline

    def _statements(self, connection: Connection) -> Statements:
        return Statements(connection, {} if self._clock is None else {"now": self._clock()})

    def close(self) -> None:
        """Wait for calls under way, for at most the deadline, and disconnect."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._under_way, self._deadline)
        if os.getpid() == self._pid:
            self._pool.close(self._deadline)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        """The connection itself, for statements that are made up of names."""
        with self._call() as connection:
            yield connection

    @contextlib.contextmanager
    def _call(self, rights: str = LOOKS) -> Iterator[Connection]:
        if os.getpid() != self._pid:
            raise StoreError(
                f"store {self.label} was opened in process {self._pid}: "
                f"open another one here in {os.getpid()}, after the fork"
            )
        with self._counted():
            until = time.monotonic() + self._deadline
            connection = self._take(until)
            try:
                connection.until, connection.seconds = until, self._deadline
                if not self._known.is_recognised:
                    self._check(connection)
                    self._known.is_recognised = True
                yield connection
            except psycopg.Error as error:
                if not isinstance(error, _HARMLESS):
                    connection.close()
                if isinstance(error, errors.ReadOnlySqlTransaction):
                    # The others lead to the same server, which is the wrong one by now.
                    self._pool.drain()
                raise translated(error, self.label, rights) from error
            except (UnicodeEncodeError, OverflowError) as error:
                raise unfit(error, self.label, rights) from error
            finally:
                connection.until = None
                self._pool.putconn(connection)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            if self._is_closed:
                raise StoreUnavailable(f"store {self.label} is closed")
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _take(self, until: float) -> Connection:
        self._failures.clear()
        while True:
            try:
                return self._pool.getconn(_STEP_SECONDS)
            except psycopg_pool.PoolTimeout as error:
                if self._failures:
                    raise self._refusal(self._failures[-1]) from error
                if time.monotonic() > until:
                    raise StoreUnavailable(f"store {self.label}: no connection within {self._deadline:g} s") from error
            except psycopg_pool.PoolClosed as error:
                raise StoreUnavailable(f"store {self.label} is closed") from error

    def _refusal(self, error: psycopg.Error) -> StoreUnavailable | Refused | ConfigurationError:
        told = refusal(error, self.label, hosts=len(str(self._parts.get("host") or "").split(",")))
        # Once it has worked, whatever is wrong with it can be put right again: tasks go on meanwhile.
        return StoreUnavailable(str(told)) if self._known.is_recognised else told
