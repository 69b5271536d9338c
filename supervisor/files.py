"""Small files that are whole or not there: written under another name, then renamed."""

import json
import os
from pathlib import Path
from typing import Any

from chong.store.errors import ConfigurationError

SPOIL_SUFFIX = ".unreadable"
"""Of a file that was set aside because it cannot be read."""


def write_text(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def read_json(path: Path) -> Any:
    """ValueError when it is no JSON, also when it is nested too deeply to be read; OSError as the system has it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error


def check_plain(path: Path) -> None:
    """ConfigurationError when a directory stands in the place of a file of ours, or we may not read and write it."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path}: expected a file, got a directory")
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            raise ConfigurationError(f"{path}: expected a file that user {os.geteuid()} may read and write, got none")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be used as a file: {error.strerror}") from error


def make_private(directory: Path) -> None:
    """Make sure that the directory exists, is ours and 0700; ConfigurationError otherwise."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _mode_of_ours(directory) & 0o077:
            directory.chmod(0o700)
    except FileExistsError:
        raise ConfigurationError(f"{directory}: expected a directory, it is a file") from None
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be used as a directory: {error.strerror}") from error


def check_private(directory: Path) -> None:
    """ConfigurationError where `make_private` would fail, as far as that can be told without making anything."""
    try:
        if directory.is_dir():
            _mode_of_ours(directory)
            return
        above = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    except OSError as error:
        raise ConfigurationError(f"{directory}: cannot be used as a directory: {error.strerror}") from error
    if not above.is_dir():
        raise ConfigurationError(f"{above}: expected a directory, it is a file")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{directory}: cannot be made: {above} is not writable for user {os.geteuid()}")


def _mode_of_ours(directory: Path) -> int:
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{directory}: expected a directory of user {os.geteuid()}, it belongs to user {found.st_uid}"
        )
    return found.st_mode
