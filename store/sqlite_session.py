"""One SQLite connection and its calls: at most one at a time, errors in chong's own words."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from chong.store.errors import Refused, StoreError, StoreUnavailable

DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OUT_OF_REACH = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_ERROR,  # such as a table that is not there, while a copy is restored
    }
)
# After these the connection is opened anew: what it believes of the file may be wrong.
_DOUBTFUL = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, *DAMAGED})


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's code without its extension; 0 when the error came from Python's own module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def translated(error: sqlite3.Error, label: str) -> StoreError:
    """Chong's error for a driver's. Damage counts as out of reach: tasks go on, and no store is ever made anew."""
    code = primary_code(error)
    if code in DAMAGED:
        return StoreUnavailable(f"store {label} is damaged ({error}): stop its writers and restore a copy")
    if code in _OUT_OF_REACH:
        return StoreUnavailable(f"store {label}: {error}")
    return StoreError(f"store {label}: {error}")


class NulError(ValueError):
    """A text that SQLite would keep, and cut off in some of its own functions."""


def _check(values: Any) -> None:
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, str) and "\0" in value:
            raise NulError("a text with a NUL")


class Connection(sqlite3.Connection):
    """Takes no text with a NUL, as PostgreSQL does not: what one store refuses, no other may keep."""

    def execute(self, query: str, values: Any = (), /) -> sqlite3.Cursor:
        _check(values)
        return super().execute(query, values)

    def executemany(self, query: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        kept = list(rows)
        for values in kept:
            _check(values)
        return super().executemany(query, kept)


class Session:
    """A connection, opened at its first call unless one is given, and kept."""

    def __init__(
        self,
        label: str,
        connect: Callable[[], sqlite3.Connection],
        connection: sqlite3.Connection | None = None,
        is_same_file: Callable[[], bool] = lambda: True,
    ) -> None:
        self._label = label
        self._connect = connect
        self._is_same_file = is_same_file
        self._connection = connection
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._ended = False

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """A call that writes nothing."""
        return self._call("what was asked for cannot be looked up")

    @contextlib.contextmanager
    def _call(self, refusal: str) -> Iterator[sqlite3.Connection]:
        """`refusal`: what it means when a value is none for the database."""
        # A connection carried across a fork breaks SQLite's file locks for parent and child alike.
        if os.getpid() != self._pid:
            raise StoreError(
                f"store {self._label} was opened in process {self._pid}: "
                f"open another one here in {os.getpid()}, after the fork"
            )
        with self._lock:
            try:
                self._check_identity()
                yield self._opened()
            except (UnicodeEncodeError, OverflowError, NulError, sqlite3.IntegrityError) as error:
                raise Refused(f"store {self._label}: {refusal}: {error}") from error
            except sqlite3.Error as error:
                if primary_code(error) in _DOUBTFUL:
                    self._disconnect()
                raise translated(error, self._label) from error
            finally:
                if self._ended:
                    self._disconnect()

    @contextlib.contextmanager
    def surveying(self) -> Iterator[sqlite3.Connection]:
        """A transaction that only reads: every query sees what stands now."""
        with self.reading() as db:
            db.execute("BEGIN")
            try:
                # The first look fixes what is seen, not the BEGIN; a clock that is read then is later than all of it.
                db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its beginning.

        A deferred one that had read before it wrote would be refused at once, whatever the busy time-out, when
        somebody else wrote in between.
        """
        with self._call("a value cannot be stored") as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                # Some errors have rolled back already.
                if db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                raise

    def end(self, timeout: float) -> None:
        """Disconnect now, or as soon as the call under way ends; later calls find the store closed."""
        self._ended = True
        if os.getpid() != self._pid or not self._lock.acquire(timeout=max(0.0, timeout)):
            return
        try:
            self._disconnect()
        finally:
            self._lock.release()

    def _opened(self) -> sqlite3.Connection:
        if self._ended:
            raise StoreUnavailable(f"store {self._label} is closed")
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _check_identity(self) -> None:
        """A file that was removed or replaced takes writes all the same, and nobody would ever read them."""
        if not self._is_same_file():
            raise StoreUnavailable(f"store {self._label} was removed or replaced while it was in use: put it back")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        # The thread that owned it is gone.
        if os.getpid() == self._pid:
            self._disconnect()
