"""A task that changes its process, and one that tells what it finds."""

import gc
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from chong.worker import TaskContext, task

HOARD: list[str] = []


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
