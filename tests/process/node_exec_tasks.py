"""A module that leaves a thread behind: each run of its tasks is an interpreter that imports it by itself."""

import os
import signal
import threading

from chong.worker import Retry, TaskContext, task

threading.Thread(target=threading.Event().wait, daemon=True).start()


@task("exec.asks", retries=2, backoff=0.01)
def asks(ctx: TaskContext) -> list[object]:
    """Asks for a second attempt, is killed in it right behind a checkpoint, and tells what the third one finds."""
    if ctx.attempt == 1:
        ctx.checkpoint(state={"page": 1})
        raise Retry(after=0.01, reason="once more")
    if ctx.attempt == 2:
        for page in (2, 3):
            ctx.checkpoint(state={"page": page, "after": ctx.last_checkpoint})
        os.kill(os.getpid(), signal.SIGKILL)
    return [ctx.attempt, ctx.last_checkpoint]
