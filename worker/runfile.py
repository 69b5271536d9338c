"""Files of a run that a frame names: written under another name first, so that a named one is whole."""

import os
from os import write
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Raises OSError; then nothing stands under `path` that was not there before."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[write(descriptor, view) :]
    finally:
        os.close(descriptor)
    new.rename(path)
