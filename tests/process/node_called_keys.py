"""Scheduled tasks whose keys functions tell, good ones and bad ones."""

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from node_tasks import note

from chong.worker import TaskContext, task

ROOT = Path(os.environ.get("NODE_BENCH", "/nonexistent"))


def told() -> list[str]:
    sys.stdout.write("nobody reads this")
    return json.loads((ROOT / "keys").read_text())


def hanging() -> list[str]:
    if os.fork() == 0:
        os.setpgid(0, 0)
        time.sleep(1)
        os._exit(0)
    while True:
        time.sleep(1)


def halfway() -> Iterator[str]:
    yield "a"
    raise ValueError("the customers' table is locked")


@task("told", every="1s", keys=told)
def fire(ctx: TaskContext) -> None:
    note(ctx, "begin")


def never(ctx: TaskContext) -> None:
    note(ctx, "begin")


bad_hanging = task("bad.hanging", every="1d", keys=hanging)(never)
bad_halfway = task("bad.halfway", every="1d", keys=halfway)(never)
bad_numbers = task("bad.numbers", every="1d", keys=lambda: [1, 2])(never)
bad_endless = task("bad.endless", every="1d", keys=lambda: map(str, itertools.count()))(never)
bad_text = task("bad.text", every="1d", keys=lambda: "acme")(never)
bad_nothing = task("bad.nothing", every="1d", keys=lambda: None)(never)
bad_leaving = task("bad.leaving", every="1d", keys=lambda: os._exit(0))(never)
bad_crashing = task("bad.crashing", every="1d", keys=os.abort)(never)
