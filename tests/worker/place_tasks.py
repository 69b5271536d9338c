"""Tasks that tell what they were given, and one that changes all of it."""

import decimal
import gc
import locale
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

from chong.worker import task

STATE = {"count": 0}
LIMITS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def umask():
    found = os.umask(0)
    os.umask(found)
    return found


def spoil():
    """Everything about a process that a fork inherits and that a module or a task can change."""
    os.chdir("/proc")
    os.umask(0o777)
    os.nice(3)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_STACK, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (256, resource.getrlimit(limit)[1]))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGURG}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, print)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
    signal.set_wakeup_fd(-1)
    signal.setitimer(signal.ITIMER_PROF, 3600)
    signal.setitimer(signal.ITIMER_VIRTUAL, 3600)
    sys.setrecursionlimit(5000)
    sys.setswitchinterval(0.5)
    sys.settrace(lambda *_: None)
    sys.setprofile(lambda *_: None)
    threading.settrace(lambda *_: None)
    threading.setprofile(lambda *_: None)
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    decimal.getcontext().prec = 3
    gc.disable()
    STATE["count"] += 1


@task("place.snapshot")
def snapshot(ctx):
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "cwd": str(Path.cwd()),
        "umask": umask(),
        "environment": {name: value for name, value in os.environ.items() if name != "CHONG_RUN"},
        "handlers": {str(int(n)): str(signal.getsignal(n)) for n in signal.valid_signals() if n != signal.SIGURG},
        "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "pending": status["ShdPnd"],
        "limits": {name: resource.getrlimit(limit) for name, limit in LIMITS.items()},
        "fds": sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.exists()),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)),
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "threads": threading.active_count(),
        "timers": [signal.getitimer(timer) for timer in TIMERS],
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "hooks": [
            str(hook) for hook in (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile())
        ],
        "locale": locale.setlocale(locale.LC_ALL),
        "decimal": decimal.getcontext().prec,
        "gc": gc.isenabled(),
        "count": STATE["count"],
    }


@task("place.spoil")
def spoil_all(ctx):
    os.environ["SPOILT"] = "yes"
    os.open("/dev/null", os.O_RDONLY)
    spoil()
    return snapshot(ctx)


@task("place.random")
def numbers(ctx):
    """Of the generators that a process has for all its code."""
    return [random.random(), sys.modules["numpy.random"].state]


@task("place.terms", nice=5, umask=0o027, cwd="/usr", env={"ALPHA": "one", "TZ": "Pacific/Apia", "HOME": "/mine"})
def terms(ctx):
    said = subprocess.run(
        ["/bin/sh", "-c", "echo $ALPHA $CHONG_RUN; pwd; umask"], capture_output=True, text=True, check=False
    )
    return {"said": said.stdout.split(), "nice": os.getpriority(os.PRIO_PROCESS, 0), "home": os.environ["HOME"]}


@task("place.nowhere", cwd="/nonexistent/chong")
def nowhere(ctx, mark):
    Path(mark).touch()


@task("place.hog", memory="192M")
def hog(ctx, mib):
    block = bytearray(mib << 20)
    return len(block)


@task("place.cramped", memory="1M")
def cramped(ctx, mark):
    Path(mark).touch()


@task("place.games", user="games", umask=0o022)
def as_games(ctx, size=0, word=""):
    if ctx.last_checkpoint is None:
        ctx.checkpoint(state={"big": "s" * size})
    return {
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "environment": {name: os.environ.get(name) for name in ("HOME", "USER", "LOGNAME", "SHELL", "CHONG_RUN")},
        "word": len(word),
        "big": "r" * size,
        "shell": subprocess.run(["/bin/sh", "-c", "echo from the shell > /dev/stdout"], check=False).returncode,
        "last": len((ctx.last_checkpoint or {}).get("big", "")),
    }


@task("place.games.reach", user="games")
def reach(ctx, paths):
    """Which of these the run can read."""
    found = []
    for path in paths:
        try:
            with Path(path).open("rb"):
                found.append(path)
        except OSError:
            pass
    return found


@task("place.games.spin", user="games")
def spin(ctx):
    ctx.checkpoint(message="spinning")
    while True:
        pass


@task("place.games.link", user="games")
def link(ctx, target):
    """Lays links where the supervisor and the forkserver will write, and waits to be orphaned."""
    for name in ("remains.json.new", "remains.json"):
        Path(ctx._progress._run_dir, name).symlink_to(target)
    ctx.checkpoint(message="laid")
    signal.pause()


@task("place.spend")
def spend(ctx, seconds, mib):
    block = bytearray(b"x") * (mib << 20)
    while sum(os.times()[:2]) < seconds:
        block[0] ^= 1


@task("place.strangers", user="chong-nobody-has-this")
def strangers(ctx):
    pass
