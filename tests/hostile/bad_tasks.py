"""Hostile and broken task code by its name, imported by a real forkserver beside the ordinary tasks of other tests."""

from typing import Any

import channel_bodies  # noqa: F401
import limit_bodies  # noqa: F401
import process_bodies  # noqa: F401
import signal_bodies  # noqa: F401
from bodies import BODIES, wait_for_the_end
from node_tasks import note

from chong.worker import TaskContext, task


@task("bad", stop_grace=0.4, kill_grace=0.4)
def bad(ctx: TaskContext, how: str) -> Any:
    note(ctx, "begin")
    return BODIES[how](ctx)


@task("bad.timed", timeout=0.3, stop_grace=0.2, kill_grace=0.2)
def bad_timed(ctx: TaskContext, how: str) -> Any:
    return bad(ctx, how)


@task("deaf.frozen", stop_grace=0.4, kill_grace=2)
def deaf_frozen(ctx: TaskContext) -> None:
    """Never looks; continued, it dies by the SIGTERM that waits for it."""
    note(ctx, "begin")
    wait_for_the_end()
