"""`chong-supervisor` that is killed when it is about to store a task with a certain flag: run as a script.

Its arguments are the flag, and the whole command that it takes the place of.
"""

import os
import runpy
import signal
import sys
from collections.abc import Sequence
from typing import Any

from chong.store.model import Save
from chong.store.sqlite import SqliteTaskStore

flag, module = sys.argv[1], sys.argv.index("-m") + 1
save_many = SqliteTaskStore.save_many


def killed_at_save(self: SqliteTaskStore, saves: Sequence[Save], **more: Any) -> list[Exception | None]:
    if any(flag in save.snapshot.flags for save in saves):
        os.kill(os.getpid(), signal.SIGKILL)
    return save_many(self, saves, **more)


SqliteTaskStore.save_many = killed_at_save
sys.argv = sys.argv[module:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
