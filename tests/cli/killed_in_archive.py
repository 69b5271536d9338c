"""An archive whose writer is killed at one of its calls to the system: run as a script.

It archives one task, then three, of which it keeps the first two. Its arguments are the store's file, the archive, and
the number of the call at which it dies; a write has then been done by half.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from chong.cli.archive import Archive
from chong.store.sqlite import SqliteTaskStore

left = int(sys.argv[3])


def dies_at(call: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **more: Any) -> Any:
        global left  # noqa: PLW0603
        left -= 1
        if left == 0:
            if call is pwrite:
                descriptor, data, at = args
                pwrite(descriptor, data[: len(data) // 2], at)
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)

    return made


with SqliteTaskStore(sys.argv[1]) as store:
    first, *batch = store.prunable(timedelta(days=90))
pwrite = os.pwrite
archive = Archive(Path(sys.argv[2]))
archive.add([first])
archive.add(batch)
for name in ("open", "pwrite", "fsync", "ftruncate", "unlink"):
    setattr(os, name, dies_at(getattr(os, name)))
archive.keep(batch[:2])
archive.close()
