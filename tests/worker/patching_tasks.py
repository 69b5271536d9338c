"""Tasks that replace what chong itself needs, and leave it so; imported by a real forkserver."""

import json
import os
import signal
import sys
import threading
import time
from io import StringIO

from chong.worker import task


def refuse(*_, **__):
    raise ZeroDivisionError("replaced by the task")


NAMES = {
    os: ("getpid", "_exit", "kill", "write", "open", "close", "fchmod", "geteuid"),
    json: ("dumps", "loads"),
    signal: ("signal", "setitimer", "pthread_sigmask"),
    threading: ("current_thread", "main_thread"),
    time: ("time", "monotonic", "sleep", "clock_gettime"),
}


def replace_all():
    for module, names in NAMES.items():
        for name in names:
            setattr(module, name, refuse)
    sys.stdout.write("before")
    sys.stdout = sys.stderr = StringIO()


def freeze():
    """As libraries for tests do it: the known functions are looked for in every module."""
    year_2000 = 946684800.0
    known = {id(getattr(time, name)) for name in ("time", "monotonic")}
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if id(value) in known:
                setattr(module, name, lambda: year_2000)
    time.clock_gettime = lambda _: year_2000


@task("patching.ends")
def ends(ctx, how):
    replace_all()
    if how == "raise":
        raise ValueError("as it should")
    return how if how == "short" else "x" * 100_000


@task("patching.late")
def late(ctx):
    """Is stopped with everything replaced."""
    replace_all()
    ctx.checkpoint(message="replaced")
    while True:
        ctx.sleep(0.01)


@task("patching.frozen")
def frozen(ctx, seconds):
    freeze()
    assert time.time() == time.monotonic() == 946684800.0
    ctx.sleep(seconds)
    for done in range(3):
        ctx.sleep(0.06)
        ctx.checkpoint(done=done)
    return "slept"
