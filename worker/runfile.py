"""Files of a run that a frame names: written under another name first, so that a named one is whole.

By functions of `os` under names of their own: a task may have replaced them there, and those of `pathlib` look them up.
"""

# ruff: noqa: PTH102, PTH104, PTH108, PTH116 -- see above

import os
from contextlib import suppress
from os import close, fchmod, fchown, geteuid, mkdir, read, rename, stat, unlink, write
from os import open as open_file

HELD_BACK = "held-back.json"
"""A checkpoint frame that has not been sent yet: what the run said last, should it be killed now."""


def read_file(path: str) -> bytes:
    """Raises OSError."""
    descriptor = open_file(path, os.O_RDONLY | os.O_CLOEXEC)
    data = b""
    try:
        while part := read(descriptor, 1 << 20):
            data += part
    finally:
        close(descriptor)
    return data


def write_file(path: str, data: bytes) -> None:
    """Raises OSError; then nothing stands under `path` that was not there before.

    The directory may belong to a run's user: the file is then that user's, and no link that the user left is followed.
    """
    parent = path.rpartition("/")[0] or "."
    _make_directory(parent)
    new = f"{path}.new"
    remove_file(new)
    descriptor = open_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fchmod(descriptor, 0o600)  # whatever the umask
        owner = stat(parent)
        if owner.st_uid != geteuid():
            fchown(descriptor, owner.st_uid, owner.st_gid)
        view = memoryview(data)
        while view:
            view = view[write(descriptor, view) :]
    finally:
        close(descriptor)
    rename(new, path)


def remove_file(path: str) -> None:
    """It may be gone already; raises OSError when it stays."""
    with suppress(FileNotFoundError):
        unlink(path)


def _make_directory(path: str) -> None:
    try:
        mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_directory(path.rpartition("/")[0])
        mkdir(path, 0o700)
