"""Hostile and broken task code, imported by a real forkserver beside the ordinary tasks of other tests."""

import atexit
import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from node_tasks import note

from chong.worker import TaskContext, task
from chong.worker.channel import Channel
from chong.worker.wire import CHANNEL_FD, LEASH_FD, Up

MIB = 1024 * 1024
HOARD: list[Any] = []
Body = Callable[[TaskContext], Any]
BODIES: dict[str, Body] = {}


def body(name: str) -> Callable[[Body], Body]:
    def enter(function: Body) -> Body:
        BODIES[name] = function
        return function

    return enter


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


def wait_for_the_end() -> None:
    while True:
        time.sleep(600)


# --- limits and memory -----------------------------------------------------------------------------------------


def hoard() -> None:
    """Every byte that the limit leaves, kept: whoever tells of it has nothing to allocate from."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, used + 64 * MIB))
    for size in (MIB, 4096, 64):
        try:
            while True:
                HOARD.append(bytearray(size))
        except MemoryError:
            continue
    raise MemoryError("nothing is left")


@body("hoards memory")
def hoards(_: TaskContext) -> None:
    hoard()


@body("soft cpu limit")
def soft_cpu_limit(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 5))
    while True:
        pass


@body("file size limit")
def file_size_limit(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    Path("too-large").write_bytes(b"x" * 8192)


@body("no descriptors left")
def no_descriptors_left(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    while True:
        os.dup(0)


@body("recursion in C")
def recursion_in_c(_: TaskContext) -> None:
    sys.setrecursionlimit(10**8)
    callback = ctypes.CFUNCTYPE(None)

    def again() -> None:
        callback(again)()

    again()


# --- signals ----------------------------------------------------------------------------------------------------


@body("alarm")
def alarm(_: TaskContext) -> None:
    signal.alarm(1)
    wait_for_the_end()


@body("stops itself")
def stops_itself(ctx: TaskContext) -> str:
    os.kill(os.getpid(), signal.SIGSTOP)
    return "continued"


@body("swallows every exception")
def swallows(_: TaskContext) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


@body("sleeps in the kernel")
def sleeps_in_the_kernel(_: TaskContext) -> None:
    """The parent of a vfork waits in state D; SIGTERM does not reach it, SIGKILL does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    if libc.vfork() == 0:
        libc.sleep(600)
        libc._exit(0)


@body("ends its group")
def ends_its_group(_: TaskContext) -> None:
    os.killpg(0, signal.SIGTERM)
    wait_for_the_end()


# --- the worker's own things --------------------------------------------------------------------------------------


@body("closes everything")
def closes_everything(_: TaskContext) -> str:
    os.closerange(0, LEASH_FD + 1)
    return "unheard"


@body("closes its output")
def closes_its_output(_: TaskContext) -> str:
    for number in (0, 1, 2):
        os.close(number)
    return "heard"


@body("shuts its channel")
def shuts_its_channel(_: TaskContext) -> str:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CHANNEL_FD)
    channel.shutdown(socket.SHUT_RDWR)
    channel.detach()
    return "unheard"


@body("casts off its leash")
def casts_off_its_leash(_: TaskContext) -> str:
    fcntl.fcntl(LEASH_FD, fcntl.F_SETFL, 0)
    fcntl.fcntl(LEASH_FD, fcntl.F_SETOWN, 0)
    os.close(LEASH_FD)
    return "unleashed"


@body("calls the harness")
def calls_the_harness(ctx: TaskContext) -> str:
    channel = next(found for found in gc.get_objects() if isinstance(found, Channel))
    channel.send(Up.RESULT, {"value": '"forged"'})
    channel.send(Up.FAILURE, {"failure": "{}"})
    ctx._listener.close()
    return "real"


@body("breaks the harness")
def breaks_the_harness(ctx: TaskContext) -> str:
    json.dumps = json.loads = os.write = None  # type: ignore[assignment]
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    gc.disable()
    return "as if nothing had been"


@body("traces everything")
def traces_everything(_: TaskContext) -> str:
    sys.settrace(lambda *_: None)
    sys.setprofile(lambda *_: None)
    return "seen"


@body("sends nothing")
def sends_nothing(_: TaskContext) -> None:
    """Empty messages, which read like an end."""
    for _turn in range(3):
        os.write(CHANNEL_FD, b"")
    wait_for_the_end()


@body("sends descriptors")
def sends_descriptors(_: TaskContext) -> None:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CHANNEL_FD)
    for _turn in range(10):
        socket.send_fds(channel, [b"{}"], [0] * 250)
    channel.detach()
    wait_for_the_end()


@body("sends without end")
def sends_without_end(_: TaskContext) -> None:
    """Where it may, with a buffer of its own choice, so that the reader never comes to an end."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CHANNEL_FD)
    channel.setsockopt(socket.SOL_SOCKET, 32 if os.geteuid() == 0 else socket.SO_SNDBUF, 1 << 30)
    while True:
        channel.send(b'{"kind":"checkpoint","n":100,"at":1,"done":1,"x":"' + b"x" * 60_000 + b'"}')


@body("names a huge file")
def names_a_huge_file(ctx: TaskContext) -> None:
    directory = Path(os.environ["NODE_BENCH"], "state", "runs", f"{ctx.id}.{ctx.attempt}")
    directory.mkdir(parents=True)
    with (directory / "result.json").open("wb") as file:
        file.truncate(1 << 40)
    os.write(CHANNEL_FD, b'{"kind":"result","n":100,"at":1,"file":"result.json"}')
    wait_for_the_end()


# --- checkpoints ---------------------------------------------------------------------------------------------------


@body("huge state")
def huge_state(ctx: TaskContext) -> None:
    ctx.checkpoint(state="s" * (100 * MIB))


@body("invalid state")
def invalid_state(ctx: TaskContext) -> None:
    ctx.checkpoint(state={1, 2})


@body("a million checkpoints")
def a_million_checkpoints(ctx: TaskContext) -> int:
    for done in range(1_000_000):
        ctx.checkpoint(done=done, total=1_000_000)
    return 1_000_000


# --- threads, forks, output ----------------------------------------------------------------------------------------


@body("64 threads")
def many_threads(_: TaskContext) -> str:
    for _turn in range(64):
        threading.Thread(target=wait_for_the_end, daemon=True).start()
    return "with 64 threads"


@body("threads that do not end")
def threads_that_do_not_end(_: TaskContext) -> str:
    threading.Thread(target=wait_for_the_end).start()
    return "kept"


@body("threads that shout")
def threads_that_shout(_: TaskContext) -> str:
    def shout() -> None:
        while True:
            print("still here")  # noqa: T201

    for _turn in range(4):
        threading.Thread(target=shout, daemon=True).start()
    time.sleep(0.1)
    return "over them"


@body("a thread that raises")
def a_thread_that_raises(_: TaskContext) -> str:
    def fail() -> None:
        raise ValueError("in a thread")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    return "all the same"


@body("exit handler that raises")
def exit_handler_that_raises(_: TaskContext) -> str:
    atexit.register(lambda: sys.exit("in an exit handler"))
    return "all the same"


@body("exit handler that leaves")
def exit_handler_that_leaves(_: TaskContext) -> str:
    atexit.register(os._exit, 9)
    return "all the same"


@body("fork bomb")
def fork_bomb(_: TaskContext) -> str:
    """Bounded by count: 4 generations of 3 children each, half of them in sessions of their own."""
    for generation in range(4):
        for child in range(3):
            if os.fork() == 0:
                if child % 2:
                    os.setsid()
                break
        else:
            wait_for_the_end()
        if generation == 3:
            wait_for_the_end()
    return "never"


@body("daemons")
def daemons(_: TaskContext) -> str:
    """Five that left group, session and parent, and hold log and channel open."""
    for _turn in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                wait_for_the_end()
            os._exit(0)
        os.wait()
    return "with daemons"


@body("forked twins")
def forked_twins(ctx: TaskContext) -> str:
    """Both return; only one of them is the worker."""
    os.fork()
    ctx.checkpoint(done=1)
    return "one of two"


@body("a pool killed half-way")
def a_pool_killed_half_way(_: TaskContext) -> None:
    pool = Pool(4)
    pool.map_async(time.sleep, [600] * 4)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


@body("binary output")
def binary_output(_: TaskContext) -> str:
    os.write(1, bytes(range(256)) * 4096)
    print("\ud800\0\x1b[2J")  # noqa: T201
    return "written"


# --- against the others --------------------------------------------------------------------------------------------


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@task("against.above")
def against_above(ctx: TaskContext, number: int, title: str) -> str:
    """A signal to the nearest process above that is called so, and to no other one."""
    pid = os.getpid()
    while not Path(f"/proc/{pid}/cmdline").read_text().startswith(title):
        pid = parent_of(pid)
    note(ctx, "begin")
    os.kill(pid, number)
    ctx.sleep(2)
    return "still here"


@task("starts.soon", start_timeout=1)
def starts_soon(_: TaskContext) -> None:
    """Its start waits no longer than a second."""


@task("kills.all")
def kills_all(_: TaskContext, outer: int, gate: str) -> None:
    """Everything that it may signal, if that is a world of its own, once the gate is open."""
    if Path("/proc/self/ns/pid").stat().st_ino == outer or len(list(Path("/proc").glob("[0-9]*"))) > 10:
        raise RuntimeError("expected a pid namespace with a handful of processes")
    while not Path(gate).exists():
        time.sleep(0.01)
    os.kill(-1, signal.SIGKILL)
    wait_for_the_end()


@task("writes.on", stop_grace=0.4, kill_grace=0.4)
def writes_on(ctx: TaskContext, path: str) -> None:
    note(ctx, "begin")
    with Path(path).open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 100)
            file.seek(0)
            os.fsync(file.fileno())


# --- floods --------------------------------------------------------------------------------------------------------

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


@task("vandal")
def vandal(_: TaskContext) -> str:
    """Changes in its process whatever a process can change."""
    os.chdir("/")
    os.umask(0)
    os.nice(5)
    os.environ["CHONG_VANDAL"] = os.environ["PATH"] = "everywhere"
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    sys.path.clear()
    sys.setrecursionlimit(100)
    gc.disable()
    sys.modules["json"] = sys.modules["os"] = None  # type: ignore[assignment]
    HOARD.append("left behind")
    return "done"


@task("surroundings")
def surroundings(_: TaskContext) -> dict[str, Any]:
    """What a run finds when it begins."""
    facts: dict[str, Any] = {line.split(":\t")[0]: line for line in Path("/proc/self/status").read_text().splitlines()}
    umask = os.umask(0)
    os.umask(umask)
    return {
        "directory": str(Path.cwd()),
        "umask": umask,
        "nice": os.nice(0),
        "environment": {name: text for name, text in os.environ.items() if name != "CHONG_RUN"},
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "signals": [facts[name] for name in ("SigBlk", "SigIgn", "SigCgt", "Threads")],
        "path": sys.path,
        "depth": sys.getrecursionlimit(),
        "gc": gc.isenabled(),
        "modules": [sys.modules[name] is None for name in ("json", "os")],
        "hoard": HOARD,
        "descriptors": sorted(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.name in "0124"),
    }


@task("unleashed")
def unleashed(ctx: TaskContext) -> None:
    """Nothing would end it when nobody is left above it."""
    casts_off_its_leash(ctx)
    note(ctx, "begin")
    wait_for_the_end()
