"""The database file of a node's spool: opened, checked, and made anew beside what is left of a damaged one.

An SQLite database, for it writes many things durably with one wait for the disk, and whole or not at all. Two
connections: one writes, in a thread of its own; one reads, in the main loop's, and never waits for the other.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chong.store.errors import ChongError, ConfigurationError
from chong.store.queries import load_queries, load_script
from chong.store.sqlite_session import DAMAGED, primary_code

VERSION = 2
"""Of those before it, tables are missing, which are made."""
BUSY_SECONDS = 5.0
MOST_BYTES = 4 * 1024**3
"""A spool that has grown to this takes nothing more: ten thousand waiting tasks with the largest parameters fit."""
PAGE_BYTES = 4096
DAMAGED_SUFFIX = ".unreadable"

_FOLDER = Path(__file__).parent / "sql"
_SALVAGED = ("submissions", "states", "unsent", "terms", "unreadable", "groups", "member_ends", "notices")

Statement = tuple[str, Mapping[str, Any]]
"""A query's name and its values."""


class SpoolError(ChongError):
    """The spool cannot be written or read; is_damaged: and will not be, as long as the file is what it is."""

    def __init__(self, path: Path, error: sqlite3.Error) -> None:
        super().__init__(f"{path}: {error}")
        self.is_damaged = primary_code(error) in DAMAGED


class SpoolFile:
    """Open; `damaged` is where the file went that could not be read, None in all other cases."""

    def __init__(self, path: Path) -> None:
        """ConfigurationError when the file is a later chong's, or the system does not let us use it."""
        self.path = path
        self.damaged: Path | None = None
        self._queries = load_queries("spool", folder=_FOLDER)
        try:
            self._open()
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be used as a spool: {error.strerror}") from error
        except sqlite3.DatabaseError as error:
            if primary_code(error) not in DAMAGED:
                raise ConfigurationError(f"{path}: cannot be used as a spool: {error}") from error
            self.damaged = _set_aside(path)
            self._open()
            self._salvage(self.damaged)

    def write(self, statements: Iterable[Statement]) -> None:
        """All of it, durably, or nothing; SpoolError. For the writer's thread."""
        try:
            with _transaction(self._writing):
                for name, values in statements:
                    self._writing.execute(self._queries[name], values)
        except sqlite3.Error as error:
            raise SpoolError(self.path, error) from error

    def read(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; SpoolError. For the main loop's thread."""
        try:
            return self._reading.execute(self._queries[name], values).fetchall()
        except sqlite3.Error as error:
            raise SpoolError(self.path, error) from error

    def close(self) -> None:
        self._reading.close()
        self._writing.close()

    def _open(self) -> None:
        # SQLite makes files by the umask alone.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._writing = _connect(self.path)
        try:
            self._check_version()
            self._prepare()
            self._reading = _connect(self.path)
        except BaseException:
            self._writing.close()
            raise

    def _check_version(self) -> None:
        (version,) = self._writing.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise ConfigurationError(
                f"{self.path}: expected a spool of version {VERSION}, got {version}: a later chong has written it, "
                "which alone can take over what was accepted"
            )
        found = [text for (text,) in self._writing.execute("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            error = sqlite3.DatabaseError(found[0])
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error

    def _prepare(self) -> None:
        self._writing.execute("PRAGMA journal_mode = WAL")
        self._writing.execute("PRAGMA synchronous = FULL")
        self._writing.execute(f"PRAGMA max_page_count = {MOST_BYTES // PAGE_BYTES}")
        with _transaction(self._writing):
            (version,) = self._writing.execute("PRAGMA user_version").fetchone()
            if version < VERSION:
                for statement in load_script("spool_schema", folder=_FOLDER).split(";\n"):
                    self._writing.execute(statement)
                self._writing.execute(f"PRAGMA user_version = {VERSION}")

    def _salvage(self, damaged: Path) -> None:
        """Every row that can still be read, whatever is beside it."""
        with contextlib.closing(_connect(damaged)) as old, _transaction(self._writing):
            for table in _SALVAGED:
                columns = [name for _, name, *_ in self._writing.execute(f"PRAGMA table_info({table})")]
                names, blanks = ", ".join(columns), ", ".join("?" * len(columns))
                insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({blanks})"  # noqa: S608 - our own names
                for row in _readable(old, table, columns):
                    self._writing.execute(insert, row)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Any:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _set_aside(path: Path) -> Path:
    """Under another name, with what belongs to it."""
    aside = path.with_name(f"{path.name}.{time.time_ns() // 1_000_000}{DAMAGED_SUFFIX}")
    for ending in ("-wal", "-shm", ""):
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    return aside


def _readable(old: sqlite3.Connection, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """From both ends as far as it goes: what lies between two spoilt pages is lost to us, the file is kept."""
    found: dict[int, tuple[Any, ...]] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT rowid, {', '.join(columns)} FROM {table} ORDER BY rowid {order}"  # noqa: S608 - our own names
            for number, *row in old.execute(query):
                if number in found:
                    break
                found[number] = tuple(row)
    return [found[number] for number in sorted(found)]
