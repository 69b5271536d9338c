"""Tasks that write without end."""

import os
from pathlib import Path

from bodies import MIB
from node_tasks import note

from chong.worker import TaskContext, task

FLOODS: dict[str, bytes] = {
    "lines": b"a line like any other\n" * 50_000,
    "one line": b"x" * MIB,
    "binary": bytes(range(256)) * 4096,
    "newlines": b"\n" * MIB,
}


@task("floods", stop_grace=1, kill_grace=1)
def floods(ctx: TaskContext, what: str, size: int) -> int:
    """So many bytes of output."""
    note(ctx, "begin")
    left = size
    while left > 0:
        left -= os.write(1, FLOODS[what][:left])
    return size


@task("fills.the.disk")
def fills_the_disk(ctx: TaskContext, path: str) -> None:
    """Until there is no room; what it wrote stays."""
    note(ctx, "begin")
    with Path(path).open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
