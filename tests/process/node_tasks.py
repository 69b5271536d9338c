"""Tasks for the tests of whole nodes; imported by a real forkserver."""

import atexit
import base64
import contextlib
import ctypes
import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chong.worker import TaskContext, task

JOURNAL = os.environ.get("NODE_JOURNAL", "/dev/null")


def note(ctx: TaskContext, word: str) -> None:
    """One line per event, whole even when many processes write."""
    entry = {"word": word, "id": ctx.id, "attempt": ctx.attempt, "key": ctx.key, "pid": os.getpid(), "at": time.time()}
    descriptor = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, json.dumps(entry).encode() + b"\n")
    os.close(descriptor)


# --- ordinary ones -------------------------------------------------------------------------------------------


@task("noop")
def noop(ctx: TaskContext, **_: Any) -> int:
    note(ctx, "begin")
    return ctx.attempt


@task("hold", stop_grace=2, kill_grace=1)
def hold(ctx: TaskContext, seconds: float = 600, every: float = 0.05) -> str:
    """Cooperative: checkpoints all along."""
    note(ctx, "begin")
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        step += 1
        ctx.checkpoint(done=step, message="holding")
        time.sleep(every)
    note(ctx, "end")
    return "held"


@task("until", stop_grace=1, kill_grace=1)
def until(ctx: TaskContext, path: str) -> str:
    """Runs until the file is there."""
    note(ctx, "begin")
    step = 0
    while not Path(path).exists():
        step += 1
        ctx.checkpoint(done=step)
        time.sleep(0.03)
    note(ctx, "end")
    return "released"


@task("mute.until", stop_grace=1, kill_grace=1)
def mute_until(ctx: TaskContext, path: str) -> str:
    """As `until`, and never looks up."""
    note(ctx, "begin")
    while not Path(path).exists():
        time.sleep(0.03)
    return "released"


@task("span")
def span(ctx: TaskContext, seconds: float = 0.1) -> None:
    note(ctx, "begin")
    time.sleep(seconds)
    note(ctx, "end")


@task("starts.soon", start_timeout=1)
def starts_soon(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("until.two", max_parallel=2)
def until_two(ctx: TaskContext, path: str) -> str:
    return until(ctx, path)


@task("until.each", max_parallel_per_key=1)
def until_each(ctx: TaskContext, path: str) -> str:
    return until(ctx, path)


@task("noop.urgent", priority=10)
def urgent(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("echo")
def echo(ctx: TaskContext, text: str) -> dict[str, Any]:
    return {"length": len(text), "sum": hashlib.sha256(text.encode()).hexdigest()}


@task("rise")
def rise(ctx: TaskContext, seconds: float) -> int:
    """Its progress goes on for so long."""
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        step += 1
        ctx.checkpoint(done=step, message="x" * 300)
        time.sleep(0.01)
    return step


@task("give")
def give(ctx: TaskContext, value: Any = None, more: Any = None) -> list[Any]:
    note(ctx, "begin")
    return [value, more]


@task("give.number")
def give_number(ctx: TaskContext, number: int) -> int:
    note(ctx, "begin")
    return number


@task("refuse")
def refuse(ctx: TaskContext) -> None:
    note(ctx, "begin")
    raise ValueError("refused")


# --- ends ----------------------------------------------------------------------------------------------------


class Own(BaseException):
    pass


def _raise(error: BaseException) -> None:
    raise error


def _recurse(depth: int = 0) -> int:
    return _recurse(depth + 1) + 1


def _segfault() -> None:
    ctypes.string_at(0)


def _burn_cpu() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def _eat_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    bytearray(1 << 31)


def _deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    return value


ENDS: dict[str, Callable[[], Any]] = {
    "sys.exit(0)": lambda: sys.exit(0),
    "sys.exit(text)": lambda: sys.exit("no way"),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "own BaseException": lambda: _raise(Own("mine")),
    "os._exit(0)": lambda: os._exit(0),
    "os._exit(7)": lambda: os._exit(7),
    "segfault": _segfault,
    "abort": os.abort,
    "recursion": _recurse,
    "kill self": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "cpu limit": _burn_cpu,
    "memory limit": _eat_memory,
    "nan": lambda: float("nan"),
    "infinity": lambda: {"a": [math.inf]},
    "bytes": lambda: b"abc",
    "nul": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "digits": lambda: 10**5000,
    "colliding keys": lambda: {1: "a", "1": "b"},
    "deep": _deep,
    "huge": lambda: "x" * 2_000_000,
    "huge and many": lambda: ["x" * 1000] * 100_000,
}


@task("end")
def end(ctx: TaskContext, how: str) -> Any:
    note(ctx, "begin")
    return ENDS[how]()


@task("end.retried", retries=2)
def end_retried(ctx: TaskContext, how: str) -> Any:
    return end(ctx, how)


@task("result")
def result(ctx: TaskContext, size: int) -> str:
    return "y" * size


@task("dies.after")
def dies_after(ctx: TaskContext) -> str:
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    return "kept"


@task("hangs.after")
def hangs_after(ctx: TaskContext) -> str:
    atexit.register(time.sleep, 600)
    return "kept"


@task("fails.twice", retries=2)
def fails_twice(ctx: TaskContext) -> int:
    note(ctx, "begin")
    if ctx.attempt < 3:
        raise ValueError("not yet")
    return ctx.attempt


@task("stateful", retries=1)
def stateful(ctx: TaskContext, size: int) -> dict[str, Any]:
    if ctx.last_checkpoint is None:
        ctx.checkpoint(done=1, state={"text": "s" * size, "page": 7})
        raise ValueError("after the checkpoint")
    return {"page": ctx.last_checkpoint["page"], "length": len(ctx.last_checkpoint["text"]), "attempt": ctx.attempt}


@task("stateful.burst", retries=1, timeout=3, stop_grace=0.2, kill_grace=0.2, backoff=0.01)
def stateful_burst(ctx: TaskContext, end: str, size: int) -> dict[str, Any]:
    """Reports more quickly than reports leave, and ends without another word."""
    if ctx.last_checkpoint is not None:
        return {"page": ctx.last_checkpoint["page"], "length": len(ctx.last_checkpoint["text"])}
    for page in range(5):
        ctx.checkpoint(done=page, state={"page": page, "text": "s" * size})
    exec(end)
    raise AssertionError(end)


# --- those that do not want to end ------------------------------------------------------------------------------


@task("deaf", stop_grace=0.4, kill_grace=0.4)
def deaf(ctx: TaskContext) -> None:
    """Swallows everything."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGURG})
    note(ctx, "begin")
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue


def _loop_in_c() -> None:
    sum(range(10**13))


@task("c.loop", stop_grace=0.4, kill_grace=0.4)
def c_loop(ctx: TaskContext) -> None:
    note(ctx, "begin")
    _loop_in_c()


@task("timed.c.loop", timeout=0.3, stop_grace=0.2, kill_grace=0.2)
def timed_c_loop(ctx: TaskContext) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    _loop_in_c()


@task("timed", timeout=0.3, stop_grace=2, kill_grace=1)
def timed(ctx: TaskContext) -> None:
    while True:
        ctx.checkpoint(done=1)
        time.sleep(0.03)


@task("timed.slow", timeout=3, stop_grace=0.2, kill_grace=0.2)
def timed_slow(ctx: TaskContext) -> None:
    time.sleep(600)


@task("timed.deaf", timeout=0.3, stop_grace=2, kill_grace=1)
def timed_deaf(ctx: TaskContext) -> None:
    """Never looks, dies by SIGTERM."""
    note(ctx, "begin")
    time.sleep(600)


@task("timed.long", timeout=0.6, stop_grace=1, kill_grace=1)
def timed_long(ctx: TaskContext) -> str:
    """Runs for 0.3 s of its time-out, however long it is paused."""
    end = 0.3
    while end > 0:
        ctx.checkpoint(done=1)
        time.sleep(0.01)
        end -= 0.01
    return "in time"


@task("interruptible", stop_grace=0.2, kill_grace=5, interruptible=True)
def interruptible(ctx: TaskContext) -> None:
    note(ctx, "begin")
    try:
        time.sleep(600)
    finally:
        note(ctx, "cleaned")


@task("cleans", stop_grace=5)
def cleans(ctx: TaskContext) -> None:
    note(ctx, "begin")
    try:
        while True:
            try:
                ctx.checkpoint(done=1)
                time.sleep(0.03)
            except Exception:
                continue
    finally:
        note(ctx, "cleaned")


# --- families --------------------------------------------------------------------------------------------------


def _sleeper(*, own_session: bool) -> int:
    return subprocess.Popen(["sleep", "600"], start_new_session=own_session).pid


def _daemon() -> int:
    """A double fork into a session of its own, with its log closed: nothing but the marker may tell whose it is."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        words = ["sh", "-c", f"echo $$ >&{theirs}; exec sleep 600 <&- >&- 2>&-"]
        subprocess.Popen(words, start_new_session=True, pass_fds=[theirs])
        os._exit(0)
    os.wait()
    with os.fdopen(ours) as pipe:
        return int(pipe.readline())


@task("family", stop_grace=0.3, kill_grace=0.3)
def family(ctx: TaskContext, how: str, *, wait: bool = False) -> dict[str, int]:
    pids = {"group": _sleeper(own_session=False), "session": _sleeper(own_session=True), "daemon": _daemon()}
    Path(how).write_text(json.dumps(pids))
    note(ctx, "begin")
    while wait:
        ctx.checkpoint(done=1)
        time.sleep(0.03)
    return pids


@task("talker")
def talker(ctx: TaskContext, size: int) -> str:
    """Bursts with the others: all end within a moment."""
    note(ctx, "begin")
    Path(JOURNAL).with_name("gate").open("rb").close()  # a FIFO: two hundred that look again and again cost a minute
    return "z" * size


# --- hostile ones ------------------------------------------------------------------------------------------------


@task("hostile", stop_grace=0.5, kill_grace=0.5)
def hostile(ctx: TaskContext, frames: list[str], *, stay: bool = False) -> str:
    """Writes raw frames, in base64, to the worker's own channel."""
    for frame in frames:
        os.write(3, base64.b64decode(frame))
    if stay:
        time.sleep(600)
    return "unharmed"


@task("fifo", stop_grace=0.5, kill_grace=0.5)
def fifo(ctx: TaskContext, root: str) -> None:
    """Names a file whose opening waits for ever."""
    directory = Path(root, "runs", f"{ctx.id}.{ctx.attempt}")
    directory.mkdir(parents=True, exist_ok=True)
    os.mkfifo(directory / "result.json")
    os.write(3, json.dumps({"kind": "result", "n": 100, "at": time.time(), "file": "result.json"}).encode())
    time.sleep(600)


@task("flood", stop_grace=0.5, kill_grace=0.5)
def flood(ctx: TaskContext, count: int) -> int:
    for done in range(count):
        ctx.checkpoint(done=done, total=count, message=f"item {done}")
    return count


@task("raw.flood", stop_grace=0.5, kill_grace=0.5)
def raw_flood(ctx: TaskContext, count: int) -> int:
    """As `flood`, past the brake of the context."""
    now = time.time()
    for n in range(100, 100 + count):
        os.write(3, b'{"kind":"checkpoint","n":%d,"at":%f,"done":%d,"total":null,"message":null}' % (n, now, n))
    os.write(3, b'{"kind":"result","n":%d,"at":%f,"value":%d}' % (100 + count, now, count))
    return count


@task("writes")
def writes(ctx: TaskContext, count: int) -> None:
    sys.stdout.write("o" * count + "\n")
    sys.stderr.write("to stderr\n")


# --- what a worker is given ----------------------------------------------------------------------------------------


@task("look", stop_grace=0.5)
def look(ctx: TaskContext, secret: str = "") -> dict[str, Any]:
    links = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links[link.name] = str(link.readlink())
    return {
        "links": links,
        "environment": dict(os.environ),
        "title": Path("/proc/self/cmdline").read_text().rstrip("\0"),
        "threads": threading.active_count(),
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "core": list(resource.getrlimit(resource.RLIMIT_CORE)),
    }
