"""Task code that does to its channel, its leash and its output what it should not, and says what it may not."""

import fcntl
import gc
import json
import os
import socket
import sys
import time
from pathlib import Path

from bodies import MIB, body, wait_for_the_end

from chong.worker import TaskContext
from chong.worker.channel import Channel
from chong.worker.wire import CHANNEL_FD, LEASH_FD, Up


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
def sends_without_end(ctx: TaskContext) -> None:
    """Where it may, with a buffer of its own choice, so that the reader never comes to an end.

    Only once its start is stored: behind that, until then, more frames than an honest worker's would be its end.
    """
    go = Path(os.environ["NODE_BENCH"], f"go-{ctx.id}")
    while not go.exists():
        time.sleep(0.01)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=CHANNEL_FD)
    channel.setsockopt(socket.SOL_SOCKET, 32 if os.geteuid() == 0 else socket.SO_SNDBUF, 1 << 30)
    frame = b'{"kind":"checkpoint","n":100,"at":1,"done":1,"x":"' + b"x" * 60_000 + b'"}'
    for _ in range(1000):
        channel.send(frame)
    go.rename(go.with_name(f"sent-{ctx.id}"))
    while True:
        channel.send(frame)


@body("names a huge file")
def names_a_huge_file(ctx: TaskContext) -> None:
    directory = Path(os.environ["NODE_BENCH"], "state", "runs", f"{ctx.id}.{ctx.attempt}")
    directory.mkdir(parents=True)
    with (directory / "result.json").open("wb") as file:
        file.truncate(1 << 40)
    os.write(CHANNEL_FD, b'{"kind":"result","n":100,"at":1,"file":"result.json"}')
    wait_for_the_end()


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
