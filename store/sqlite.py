"""The default store: one SQLite file in WAL mode, for the processes of one machine.

Nothing but SQLite may open and close the file, not even to look: closing any descriptor of it drops this process's
locks, and a second writer then loses a committed row.

Each thread has a connection of its own, so the thread that renews leases waits for nobody in this process. SQLite
before 3.51.3 can corrupt a WAL that two connections reset at the same time; therefore only a store opened with
`checkpoints` moves the log into the database, on one connection that does nothing else.
"""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from chong.store import schema
from chong.store.contract import OnUnreadable, refuse
from chong.store.errors import ChongError, ConfigurationError, StoreError, StoreMissing, StoreUnavailable
from chong.store.mounts import network_file_system
from chong.store.sqlite_session import Connection, Session, primary_code, translated
from chong.store.sqlite_tables import SqliteTables
from chong.store.table_calls import Clock

_CHECKPOINT_SECONDS = 1.0
_IDLE_SECONDS = 60.0
_LOG_KEPT_BYTES = 64 * 1024 * 1024
_MODE_PAUSE_SECONDS = 0.02
_MOUNTINFO = Path("/proc/self/mountinfo")
_NO_RIGHTS = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})


class SqliteTaskStore(SqliteTables):
    """Opens the file at once, so that a wrong path or a foreign file is told before anything else happens.

    checkpoints: this store moves the log into the database; exactly one process, the supervisor, says so.
    deadline: seconds to wait for another writer, and for calls under way at `close()`.
    create: whether a missing file is made.
    on_unreadable: hears of each row that a list goes without, see the contract.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        checkpoints: bool = False,
        deadline: float = 5.0,
        create: bool = True,
        on_unreadable: OnUnreadable = refuse,
    ) -> None:
        super().__init__(clock, on_unreadable)
        self._path = Path(path).absolute()
        self._deadline = deadline
        self._threads = threading.local()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._sessions_lock = threading.Lock()
        self._closed = False
        check_place(self._path, create=create)
        self._threads.session = self._new_session(opened(self._path, create=create, deadline=deadline))
        self._identity = _identity_of(self._path)
        self._log = LogKeeper(self._new_session()) if checkpoints else None

    def check_serving(self) -> None:
        """SQLite opens a file that may only be read without a word, and makes other files beside it."""
        for place, rights in ((self._path, os.R_OK | os.W_OK), (self._path.parent, os.W_OK | os.X_OK)):
            if not os.access(place, rights):
                raise ConfigurationError(f"store {self._path}: expected {place} to be writable, got no right to that")

    def close(self) -> None:
        end = time.monotonic() + self._deadline
        with self._sessions_lock:
            self._closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.end(end - time.monotonic())

    @contextlib.contextmanager
    def _writing(self, *, is_urgent: bool = False) -> Iterator[sqlite3.Connection]:
        with super()._writing(is_urgent=is_urgent) as db:
            yield db
        if self._log is not None:
            # Renewals leave it to other writers; on an idle node there are none, and the log would grow for ever.
            self._log.checkpoint_if_due(_IDLE_SECONDS if is_urgent else 0.0)

    def _session(self) -> Session:
        session: Session | None = getattr(self._threads, "session", None)
        if session is None:
            session = self._threads.session = self._new_session()
        return session

    def _new_session(self, connection: sqlite3.Connection | None = None) -> Session:
        session = Session(str(self._path), self._connect, connection, self._is_same_file)
        with self._sessions_lock:
            if self._closed:
                raise StoreUnavailable(f"store {self._path} is closed")
            # Held weakly: a thread that ends takes its connection with it.
            self._sessions.add(session)
        return session

    def _connect(self) -> sqlite3.Connection:
        """Another connection to the file that was there: it may not vanish and come back empty."""
        return connect(self._path, mode="rw", deadline=self._deadline)

    def _is_same_file(self) -> bool:
        return _identity_of(self._path) == self._identity


def _identity_of(path: Path) -> tuple[int, int] | None:
    """By name, never by opening it: that would drop SQLite's locks."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


class LogKeeper:
    """Moves the write-ahead log into the database now and then, by whichever thread has just written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = threading.Lock()
        self._due = time.monotonic()

    def checkpoint_if_due(self, patience: float = 0.0) -> None:
        """Nobody waits: not for another thread's checkpoint, and (PASSIVE) not for readers."""
        if time.monotonic() < self._due + patience or not self._turn.acquire(blocking=False):
            return
        try:
            # What was written stands already, and another try follows: no reason to fail the write.
            with contextlib.suppress(StoreError), self._session.reading() as db:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._due = time.monotonic() + _CHECKPOINT_SECONDS
        finally:
            self._turn.release()


def check_place(path: Path, *, create: bool) -> None:
    """Refuse a path where no store can be, before SQLite touches it."""
    try:
        _check_place(path, create=create)
    except PermissionError as error:
        raise ConfigurationError(f"store {path}: cannot be read: {error.strerror}") from error


def _check_place(path: Path, *, create: bool) -> None:
    if not path.parent.is_dir():
        raise StoreMissing(f"store {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise ConfigurationError(f"store {path}: expected a file, got a directory")
    if not create and not path.exists():
        raise StoreMissing(f"store {path}: there is no such file; a supervisor makes it at its first start")
    network = network_file_system(_MOUNTINFO.read_text(encoding="utf-8", errors="replace"), path.resolve())
    if network is not None:
        raise ConfigurationError(
            f"store {path}: expected a local file system, got {network}, on which SQLite loses commits; "
            "several machines share a PostgreSQL store instead"
        )


def opened(path: Path, *, create: bool, deadline: float) -> sqlite3.Connection:
    """The first connection: makes the tables where nothing is yet, refuses what is not chong's."""
    connection: sqlite3.Connection | None = None
    try:
        connection = connect(path, mode="rwc" if create else "rw", deadline=deadline)
        _recognise(connection, path, create=create, deadline=deadline)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise _opening_error(error, path) from error
        raise
    return connection


def connect(path: Path, *, mode: str, deadline: float) -> sqlite3.Connection:
    # close() may come from another thread; a session lets only one use the connection at a time.
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=deadline,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    connection.row_factory = sqlite3.Row
    try:
        for setting in ("synchronous = FULL", "wal_autocheckpoint = 0", f"journal_size_limit = {_LOG_KEPT_BYTES}"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _recognise(connection: sqlite3.Connection, path: Path, *, create: bool, deadline: float) -> None:
    if schema.is_empty(connection):
        if not create:
            raise ConfigurationError(f"store {path}: expected a store of chong, got an empty file")
        _set_wal(connection, deadline)
        schema.create_tables(connection)
    if not schema.is_ours(connection):
        raise ConfigurationError(f"store {path}: expected a store of chong, got another SQLite database")
    schema.check_version(connection, str(path))
    schema.upgrade(connection)
    schema.check_tables(connection, str(path))


def _set_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """SQLite does not wait by itself when several processes make the same new file."""
    end = time.monotonic() + deadline
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_MODE_PAUSE_SECONDS)
        else:
            return


def _opening_error(error: sqlite3.Error, path: Path) -> ChongError:
    code = primary_code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return ConfigurationError(f"store {path}: expected a store of chong, got a file that is no SQLite database")
    if code in _NO_RIGHTS:
        return ConfigurationError(f"store {path}: {error}; check the rights of the file and its directory")
    return translated(error, str(path))
