"""From a store's address to the store."""

import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)\Z", re.DOTALL)


def open_store(
    url: str | os.PathLike[str],
    *,
    create: bool = True,
    checkpoints: bool = False,
    clock: Callable[[], datetime] | None = None,
) -> TaskStore:
    """Open `sqlite:///path`, a bare path or `memory:`; ConfigurationError for anything else.

    `create` and `checkpoints` mean what they mean to `SqliteTaskStore`.
    """
    address = os.fspath(url)
    if not address.strip():
        raise ConfigurationError("store: expected sqlite:///path or a path, got nothing")
    found = _SCHEME.match(address)
    if found is None:
        return _open_file(address, create=create, checkpoints=checkpoints, clock=clock)
    scheme, rest = found[1].lower(), found[2]
    if scheme == "sqlite":
        return _open_file(_path_of(rest), create=create, checkpoints=checkpoints, clock=clock)
    if scheme == "memory":
        # Imported late, here and below: a process that never opens a store need not load SQLite.
        from chong.store.memory import InMemoryTaskStore  # noqa: PLC0415

        return InMemoryTaskStore(clock)
    raise _unknown(scheme)


def check_address(url: str) -> None:
    """ConfigurationError for what names no store that this version has; whether it is there is not looked at."""
    found = _SCHEME.match(url)
    if found is None:
        return
    scheme = found[1].lower()
    if scheme == "sqlite":
        _path_of(found[2])
    elif scheme != "memory":
        raise _unknown(scheme)


def file_of(url: str) -> Path | None:
    """The file that an address names; None for a store that is no file, and for what is no address."""
    found = _SCHEME.match(url)
    if found is None:
        return Path(url)
    return Path(_path_of(found[2])) if found[1].lower() == "sqlite" else None


def _open_file(path: str, *, create: bool, checkpoints: bool, clock: Callable[[], datetime] | None) -> TaskStore:
    from chong.store.sqlite import SqliteTaskStore  # noqa: PLC0415

    return SqliteTaskStore(path, create=create, checkpoints=checkpoints, clock=clock)


def _path_of(rest: str) -> str:
    """As SQLAlchemy reads it: three slashes before a relative path, four before an absolute one."""
    if not rest.startswith("///") or rest == "///":
        raise ConfigurationError(
            "store: expected sqlite:///path (sqlite:////path from the root), got sqlite: without slashes and path"
        )
    return rest[3:]


def _unknown(scheme: str) -> ConfigurationError:
    # The address is not shown: wherever a password may stand in it, it would be shown too.
    if scheme in {"postgresql", "postgres"}:
        return ConfigurationError(
            f"store {scheme}:...: this version has no PostgreSQL store yet; "
            "it will come with pip install 'chong[postgres]'"
        )
    return ConfigurationError(f"store: expected sqlite:///path, a path, postgresql://... or memory:, got {scheme}:")
