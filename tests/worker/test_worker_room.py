"""A forkserver whom the kernel refuses room for a moment: what one run costs by it must not cost the others."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from worker_bench import Connection, Node, is_alive, wait_until

TRACER = Path(__file__).parents[1] / "hostile" / "tracer.py"
ROOMLESS = """
import errno
from pathlib import Path
from chong.worker.watch import Watch

refusal, add = Path({path!r}), Watch.add

def add_if_there_is_room(self, *what):
    if refusal.exists():
        refusal.unlink()
        raise OSError(errno.ENOSPC, "no room for one more watch, as the test wants it")
    add(self, *what)

Watch.add = add_if_there_is_room
"""


@pytest.fixture
def roomless(node: Node) -> Node:
    """A forkserver that is refused to watch one more descriptor, once, when `refuse` was called."""
    (node.root / "roomless.py").write_text(ROOMLESS.format(path=str(node.root / "refusal")))
    return node.start(("sample_tasks", "roomless"))


@pytest.fixture
def tracers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def refuse(node: Node) -> None:
    (node.root / "refusal").touch()


def trace(pid: int, stack: ExitStack) -> None:
    """Its end is kept from its parent until the stack is closed."""
    words = [sys.executable, str(TRACER), str(pid), "0"]
    process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"traced\n"


def test_ends_that_cannot_be_read_yet_are_all_looked_at_again(roomless: Node, tracers: ExitStack):
    """One of them that there is no room for does not lose the others."""
    connection = roomless.attach()
    runs = [connection.start(f"r.{number}", "sample.block") for number in range(3)]
    for run in runs:
        run.wait_for("started")
        trace(run.pid, tracers)
    for run in runs:
        os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(run.pid) for run in runs), "their ends")
    connection.spawn("r.0").close()  # known: an answer, by which time it has looked at them in vain
    refuse(roomless)
    tracers.close()
    for number in range(3):
        assert connection.wait_for("exited", f"r.{number}")["signal"] == signal.SIGKILL


def test_a_stray_that_cannot_be_watched_keeps_no_end_back(roomless: Node):
    """Neither its own run's nor the forkserver's: it is found dead at the next look."""
    connection = roomless.attach()
    run = connection.start("r.1", "sample.family", {"kind": "session", "linger": True})
    run.wait_for("checkpoint")
    refuse(roomless)
    os.kill(run.pid, signal.SIGKILL)
    connection.wait_for("exited", "r.1")
    connection.order("release", run="r.1")
    connection.order("retire")
    assert roomless.wait_end() == 0


def test_a_supervisor_that_cannot_be_watched_may_come_again(roomless: Node):
    """The forkserver must not turn deaf: its runs would be ended."""
    first = roomless.attach()
    run = first.start("r.1", "sample.block")
    refuse(roomless)
    first.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as turned_away:
        turned_away.connect(str(roomless.path))
        turned_away.settimeout(20)
        assert turned_away.recv(1) == b""
    second: Connection = roomless.connect()
    assert [worker["run"] for worker in second.attach("term-2")] == ["r.1"]
    os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: second.wait_for("exited", "r.1"), "its end")


def test_words_for_a_log_that_takes_no_more_end_nobody(node: Node):
    """It imports, complains of an order that makes no sense, and forks as any other."""
    (node.root / "forkserver.log").symlink_to("/dev/full")
    connection = node.start().attach()
    connection.order("nonsense")
    assert connection.start("r.1", "sample.quick").finish()[-1] == "result"
