"""A forkserver that says something of the right kind and the wrong content is ended, and nothing else is."""

import json

import pytest
from node_bench import S, Supervised, wait_until

BABBLER = """
import os, socket
from pathlib import Path
from chong.worker import task

WORDS = Path("words")

def babble():
    try:
        words = WORDS.read_bytes()
        WORDS.unlink()
    except FileNotFoundError:
        return
    for entry in os.listdir("/proc/self/fd"):
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(entry))
        except OSError:
            continue
        try:
            sock.getpeername()
            if "generation-" in str(sock.getsockname()):
                sock.send(words)
        except OSError:
            pass
        finally:
            sock.detach()

os.register_at_fork(before=babble)

@task("fine")
def fine(ctx):
    return "fine"
"""

WORDS = {
    "spawned without a pid": {"op": "spawned", "run": "r.1"},
    "an end at no time": {"op": "exited", "run": "r.1", "code": 0, "signal": None, "at": 1e300},
    "a second hello": {"op": "hello", "protocol": 1, "pid": 1, "served": [], "catalogue": "c"},
    "a worker that nobody asked for": {"op": "worker", "run": "r.1", "pid": "no", "exited": False},
}


@pytest.mark.parametrize("what", WORDS)
def test_a_forkserver_that_talks_nonsense_is_replaced(place: Supervised, what):
    """Its run goes on, a new forkserver takes the start over, and the supervisor stays."""
    (place.root / "babbler.py").write_text(BABBLER)
    node = place.start("--tasks", "babbler", "--tasks", "node_tasks", lease=30)
    running = node.begun("until", path=str(node.root / "open"))
    first = node.forkserver()
    (node.root / "words").write_text(json.dumps(WORDS[what]))
    assert node.end_of(node.submit("fine")).outcome == "fine"
    assert len(node.events("forkserver_not_understood")) == 1
    assert node.events("main_loop_failed") == []
    wait_until(lambda: first not in node.forkservers(), "the end of the first forkserver")
    (node.root / "open").touch()
    task = node.end_of(running)
    assert (task.status, task.attempt) == (S.SUCCEEDED, 1)
