"""Tasks for what a run is given and what it used."""

import getpass
import os
import signal
import time
from pathlib import Path

from node_tasks import note

from chong.worker import TaskContext, task


@task("given.search")
def search(ctx: TaskContext, word: str) -> dict[str, object]:
    """Where a word can be read: in what this process and its parent have open, were told and were given."""
    sources = [f"/proc/{pid}/{name}" for pid in ("self", os.getppid()) for name in ("environ", "cmdline")]
    texts = {source: Path(source).read_bytes() for source in sources}
    for pid in ("self", os.getppid()):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if link.is_symlink():
                texts[str(link)] = str(link.readlink()).encode()
    texts["os.environ"] = str(dict(os.environ)).encode()
    own = ctx.name.encode()  # the parameters are not the environment's
    found = [source for source, text in texts.items() if word.encode() in text.replace(own, b"")]
    return {"found": found, "looked": len(texts)}


@task("given.spend")
def spend(ctx: TaskContext, seconds: float, mib: int) -> None:
    block = bytearray(b"x") * (mib << 20)
    while sum(os.times()[:2]) < seconds:
        block[0] ^= 1


@task("given.waits")
def waits(ctx: TaskContext, mib: int, path: str) -> int:
    block = bytearray(b"x") * (mib << 20)
    note(ctx, "begin")
    while not Path(path).exists():
        ctx.checkpoint()
        time.sleep(0.01)
    return len(block)


@task("given.hog", memory="256M")
def hog(ctx: TaskContext, mib: int) -> int:
    return len(bytearray(mib << 20))


@task("given.nowhere", cwd="/nonexistent")
def nowhere(ctx: TaskContext) -> None:
    note(ctx, "begin")


@task("given.games", user="games", retries=1, backoff="10ms")
def games(ctx: TaskContext, word: str) -> dict[str, object]:
    if ctx.last_checkpoint is None:
        ctx.checkpoint(state="s" * 100_000)
        raise RuntimeError("once more, with the state")
    return {"word": len(word), "big": "r" * 200_000, "user": getpass.getuser(), "state": len(ctx.last_checkpoint)}


@task("given.games.deaf", user="games", stop_grace=0.2, kill_grace=0.2)
def deaf(ctx: TaskContext) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctx.checkpoint(message="deaf")
    while True:
        time.sleep(1)


@task("given.strangers", user="chong-has-none")
def strangers(ctx: TaskContext) -> None:
    """No such user."""
