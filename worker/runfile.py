"""Files of a run that a frame names: written under another name first, so that a named one is whole."""

import os
from os import close, fchmod, fchown, geteuid, write
from os import open as open_file
from pathlib import Path

HELD_BACK = "held-back.json"
"""A checkpoint frame that has not been sent yet: what the run said last, should it be killed now."""


def write_file(path: Path, data: bytes) -> None:
    """Raises OSError; then nothing stands under `path` that was not there before.

    The directory may belong to a run's user: the file is then that user's, and no link that the user left is followed.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = open_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fchmod(descriptor, 0o600)  # whatever the umask
        owner = path.parent.stat()
        if owner.st_uid != geteuid():
            fchown(descriptor, owner.st_uid, owner.st_gid)
        view = memoryview(data)
        while view:
            view = view[write(descriptor, view) :]
    finally:
        close(descriptor)
    new.rename(path)
