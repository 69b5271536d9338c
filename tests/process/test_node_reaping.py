"""What a node that goes down still waits for: processes that came to it when a forkserver died."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from node_bench import InProcess

from chong.supervisor import processes

MARGIN = 0.5


@pytest.fixture
def adopting(node: InProcess) -> InProcess:
    """A node one of whose forkservers has died."""
    node.run("noop")
    os.kill(node.forkserver(), signal.SIGKILL)
    node.run("noop")
    return node


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Lives in a session of its own, as all that comes to a node does, until its input is closed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


def watch_looks(monkeypatch: pytest.MonkeyPatch, on_look: Callable[[], object] = bool) -> list[float]:
    """The moments at which the closing thread has looked for what came to it; `on_look` is called after each."""
    found: list[float] = []
    reap = processes.reap_adopted

    def look(known: Callable[[], Collection[int]]) -> bool:
        lives = reap(known)
        if threading.current_thread().name != "chong-main":
            found.append(time.monotonic())
            on_look()
        return lives

    monkeypatch.setattr(processes, "reap_adopted", look)
    return found


def test_what_ends_a_moment_after_the_leash_is_reaped(adopting, stranger, monkeypatch):
    """Nobody else would do it before the supervisor itself is gone."""
    looks = watch_looks(monkeypatch, stranger.stdin.close)
    adopting.close()
    assert len(looks) > 1
    assert not Path(f"/proc/{stranger.pid}").exists()


def test_what_does_not_end_is_not_waited_for_longer_than_its_bound(adopting, stranger, monkeypatch):
    """A process that is nobody's any more must not keep a node from its end."""
    looks = watch_looks(monkeypatch)
    adopting.close()
    assert looks[-1] - looks[0] <= processes.REAP_LAST + MARGIN
    assert stranger.poll() is None
