"""Tasks for the tests of workers; imported by a real forkserver."""

import atexit
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

from chong.worker import TaskContext, TaskStopped, task

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a module that would lose every exit status
LEAKED = Path("/dev/null").open()  # noqa: SIM115


@task("sample.pages", timeout="10m", retries=3, tags={"io"})
def pages(ctx: TaskContext, since: str | None = None, count: int = 2) -> dict:
    for done in range(1, count + 1):
        ctx.checkpoint(done=done, total=count, message=f"page {done}")
    return {"pages": count, "since": since, "key": ctx.key}


@task("sample.quick")
def quick(ctx):
    return None


@task("sample.bare")
def bare():
    return "no context"


@task("sample.value")
def value(ctx, what):
    return VALUES[what]


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
VALUES: dict[str, Any] = {
    "big": "x" * 100_000,
    "too large": "x" * (1 << 20),
    "nan": {"a": [1, float("nan")]},
    "set": {1},
    "cycle": CYCLE,
    "surrogate": "\ud800",
}


class HostileError(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__()

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __reduce__ = __str__


class EndlessError(Exception):
    def __str__(self) -> str:  # noqa: PLE0307
        while True:
            pass


class StubbornError(Exception):
    def __str__(self) -> str:  # noqa: PLE0307
        while True:
            try:
                time.sleep(1)
            except BaseException:
                continue


class HugeError(Exception):
    def __str__(self) -> str:
        return "\0\ud800é" * 10_000_000


class EndlessChainError(Exception):
    @property
    def __cause__(self) -> BaseException:
        return EndlessChainError()


def chain(length: int = 5000) -> None:
    error: BaseException = ValueError("first")
    for number in range(length):
        later = ValueError(number)
        later.__cause__ = error
        error = later
    raise error


def recurse() -> None:
    recurse()


def raise_(error: BaseException) -> None:
    raise error


FAILURES = {
    "plain": lambda: raise_(ValueError("that was wrong")),
    "exit 0": lambda: sys.exit(0),
    "exit text": lambda: sys.exit("message"),
    "keyboard": lambda: raise_(KeyboardInterrupt()),
    "stopped unasked": lambda: raise_(TaskStopped("nobody asked")),
    "_exit 0": lambda: os._exit(0),
    "_exit 7": lambda: os._exit(7),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "hostile": lambda: raise_(HostileError(1, 2)),
    "endless": lambda: raise_(EndlessError()),
    "stubborn": lambda: raise_(StubbornError()),
    "huge": lambda: raise_(HugeError()),
    "chain": chain,
    "endless chain": lambda: raise_(EndlessChainError()),
    "recursion": recurse,
    "alarm": lambda: (signal.alarm(1), time.sleep(30)),
    "state": None,
}


@task("sample.fail")
def fail(ctx, how):
    if how == "state":
        ctx.checkpoint(state={1})
    FAILURES[how]()


@task("sample.after")
def after(ctx):
    """A result first, then a crash in the teardown."""
    atexit.register(lambda: ctypes.string_at(0))
    return "done"


@task("sample.loop")
def loop(ctx):
    turn = 0
    while True:
        turn += 1
        ctx.checkpoint(done=turn)
        time.sleep(0.001)


@task("sample.items")
def items(ctx):
    """Swallows what goes wrong with one item."""
    while True:
        try:
            ctx.checkpoint()
            time.sleep(0.001)
        except Exception:
            continue


@task("sample.swallow")
def swallow(ctx):
    raised = 0
    while not raised:
        try:
            ctx.sleep(30)
        except TaskStopped:
            raised += 1
    for _ in range(100):
        ctx.checkpoint(done=1)
    ctx.sleep(0.01)
    return {"raised": raised, "stop_requested": ctx.stop_requested}


@task("sample.polite")
def polite(ctx):
    while not ctx.stop_requested:
        time.sleep(0.001)
    return "left by itself"


@task("sample.sleep")
def sleep(ctx, seconds=60):
    ctx.sleep(seconds)
    return "slept"


@task("sample.block")
def block(ctx):
    time.sleep(60)


@task("sample.interruptible", interruptible=True)
def interruptible(ctx):
    try:
        ctx.checkpoint(message="blocking")
        time.sleep(60)
    finally:
        print("cleaned up")  # noqa: T201


@task("sample.deaf")
def deaf(ctx):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctx.checkpoint(message="deaf")
    while True:
        time.sleep(1)


@task("sample.spin")
def spin(ctx):
    ctx.checkpoint(message="spinning")
    return sum(range(10**12))


@task("sample.flood")
def flood(ctx, count=100_000):
    start = time.monotonic()
    for done in range(1, count + 1):
        ctx.checkpoint(done=done, total=count)
    seconds = time.monotonic() - start
    for number in range(3000):
        ctx.checkpoint(state={"number": number})
    return seconds


@task("sample.idle")
def idle(ctx, count=100_000):
    """How often checkpoints without news call which function, be it of Python or of C."""
    calls = Counter()

    def note(frame, event, function):
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[function.__name__] += 1

    ctx.checkpoint()
    sys.setprofile(note)
    for _ in range(count):
        ctx.checkpoint()
    sys.setprofile(None)
    return calls


@task("sample.state")
def state(ctx, size=0):
    ctx.checkpoint(state={"text": "x" * size})
    return ctx.last_checkpoint


@task("sample.family")
def family(ctx, kind, linger=False):
    """Leaves a grandchild behind; its pid stands in the message."""
    ctx.checkpoint(message=str(CHILDREN[kind]()))
    if linger:
        ctx.sleep(60)
    os._exit(0)


@task("sample.strays")
def strays(ctx, count):
    for _ in range(count):
        subprocess.Popen(["sleep", "60"], start_new_session=True)
    os.write(1, b"half a line")
    os._exit(0)


def forked() -> int:
    """In its own session, without exec, its parent gone, its output elsewhere than where the log is named."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            os.write(write_end, str(os.getpid()).encode())
            time.sleep(60)
        os._exit(0)
    os.wait()
    return int(os.read(read_end, 20))


CHILDREN = {
    "group": lambda: subprocess.Popen(["sleep", "60"]).pid,
    "session": lambda: subprocess.Popen(["sleep", "60"], start_new_session=True).pid,
    "silent": lambda: (
        subprocess.Popen(
            ["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).pid
    ),
    "forked": forked,
}


@task("sample.look")
def look(ctx):
    status = Path("/proc/self/status").read_text().splitlines()
    bits = dict(line.split(":\t") for line in status if line.startswith(("SigBlk", "SigIgn")))
    # Those that the C library keeps for itself cannot be set, whatever was inherited.
    masks = {name: [n for n in signal.valid_signals() if int(mask, 16) >> (n - 1) & 1] for name, mask in bits.items()}
    return {
        "fds": sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.exists()),
        "masks": masks,
        "handled": [int(n) for n in signal.valid_signals() if callable(signal.getsignal(n))],
        "stdin": str(Path("/proc/self/fd/0").readlink()),
        "stdin text": sys.stdin.read(),
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "session": os.getsid(0) == os.getpid() == os.getpgid(0),
        "marker": os.environ["CHONG_RUN"],
        "title": Path("/proc/self/cmdline").read_text().rstrip("\0"),
        "threads": threading.active_count(),
        "params": ctx.params,
        "facts": [ctx.id, ctx.name, ctx.key, ctx.bucket, ctx.attempt, ctx.deadline, ctx.last_checkpoint],
    }


@task("sample.log")
def log(ctx):
    print("plain words")  # noqa: T201
    ctx.log.info("structured", page=1)
    ctx.log.bind(more=2).warning("bound")
    return json.loads(json.dumps({"fine": True}))


@task("sample.lost_child")
def lost_child(ctx):
    """Its fork comes back to chong's code."""
    if os.fork():
        os.wait()
        return "parent"
    return "child"


@task("sample.junk")
def junk(ctx):
    for data in (b"\xff\x00", b"", b"[]", b'{"n": "\\ud800"}', b"x" * 100_000):
        os.write(3, data)


atexit.register(print, "the module's exit handler ran")
weakref.finalize(LEAKED, print, "the module's finalizer ran")


@task("sample.exit_handler")
def exit_handler(ctx):
    """Registers an exit handler and a finalizer of its own."""
    atexit.register(print, "the task's exit handler ran")
    weakref.finalize(ctx, print, "the task's finalizer ran")
