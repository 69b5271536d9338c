"""Tasks of whose failures somebody is told."""

import os
import time
from pathlib import Path

from node_tasks import note

from chong.worker import TaskContext, task

ROOT = Path(os.environ.get("NODE_BENCH", "/nonexistent"))
TELL = f"sh -c 'test -e {ROOT}/deaf && exit 3; cat >> {ROOT}/told'"


@task("told.failing", on_failure=TELL, on_failure_every="1s", retries=1, backoff=0)
def failing(ctx: TaskContext, *, fails: bool = True) -> None:
    note(ctx, "begin")
    if fails:
        raise ValueError("secret parameters stay here")


@task("told.waiting", on_failure=TELL, stop_grace=1)
def waiting(ctx: TaskContext) -> None:
    note(ctx, "begin")
    while True:
        ctx.checkpoint()
        time.sleep(0.02)


@task("told.web", on_failure=os.environ.get("NODE_HOOK", "http://localhost:1/"))
def web(ctx: TaskContext) -> None:
    raise ValueError("for the web")


@task("told.nobody")
def nobody(ctx: TaskContext) -> None:
    raise ValueError("of no interest")
