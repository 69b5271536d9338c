"""From a store's address to the store."""

import importlib
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import ModuleType

from chong.store.address import EXPECTED, SERVERS, split_scheme
from chong.store.contract import OnUnreadable, TaskStore, refuse
from chong.store.errors import ConfigurationError


def open_store(
    url: str | os.PathLike[str],
    *,
    create: bool = True,
    serving: bool = False,
    clock: Callable[[], datetime] | None = None,
    on_unreadable: OnUnreadable = refuse,
) -> TaskStore:
    """Open `sqlite:///path`, a bare path, `postgresql://...` or `memory:`; ConfigurationError for anything else.

    create: whether what is missing is made: the file, or the tables on a server.
    serving: a supervisor's store. It moves SQLite's log into the database (one process does), and a server that
    is away now is no error: each call tries again.
    on_unreadable: hears of each row that a list goes without, see the contract.
    """
    address = os.fspath(url)
    if not address.strip():
        raise ConfigurationError(f"store: {EXPECTED}, got nothing")
    found = _scheme_of(address)
    scheme, rest = ("sqlite", None) if found is None else found
    if scheme == "sqlite":
        # Imported late, here and below: a process that never opens a store need not load SQLite.
        from chong.store.sqlite import SqliteTaskStore  # noqa: PLC0415

        path = address if rest is None else _path_of(rest)
        return SqliteTaskStore(path, create=create, checkpoints=serving, clock=clock, on_unreadable=on_unreadable)
    if scheme == "memory":
        from chong.store.memory import InMemoryTaskStore  # noqa: PLC0415

        return InMemoryTaskStore(clock, on_unreadable=on_unreadable)
    assert scheme in SERVERS, "there are no others"
    store: TaskStore = _postgres().PostgresTaskStore(
        address, create=create, patient=serving, clock=clock, on_unreadable=on_unreadable
    )
    return store


def check_address(url: str) -> None:
    """ConfigurationError for what names no store that this version has; whether it is there is not looked at."""
    found = _scheme_of(url)
    if found is None:
        return
    scheme, rest = found
    if scheme == "sqlite":
        _path_of(rest)
    elif scheme in SERVERS:
        _postgres().check_address(url)


def file_of(url: str) -> Path | None:
    """The file that an address names, None for a store that is no file; ConfigurationError as for `check_address`."""
    found = _scheme_of(url)
    if found is None:
        return Path(url)
    scheme, rest = found
    return Path(_path_of(rest)) if scheme == "sqlite" else None


def _scheme_of(address: str) -> tuple[str, str] | None:
    try:
        return split_scheme(address)
    except ValueError as error:
        raise ConfigurationError(f"store: {error}") from None


def _postgres() -> ModuleType:
    """The module of the PostgreSQL store; its driver is an extra of the package."""
    try:
        return importlib.import_module("chong.store.postgres")
    except ImportError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise ConfigurationError(
            "store postgresql:...: its driver is not installed here; expected it from pip install 'chong[postgres]'"
        ) from error


def _path_of(rest: str) -> str:
    """As SQLAlchemy reads it: three slashes before a relative path, four before an absolute one."""
    if not rest.startswith("///") or rest == "///":
        raise ConfigurationError(
            "store: expected sqlite:///path (sqlite:////path from the root), got sqlite: without slashes and path"
        )
    return rest[3:]
