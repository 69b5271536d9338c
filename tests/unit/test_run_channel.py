"""The supervisor's end of a run, against a real socket."""

import os
import socket

import pytest

from chong.supervisor import processes
from chong.supervisor.events import FailureArrived
from chong.supervisor.loop import Loop
from chong.supervisor.processes import Processes
from chong.supervisor.run_channel import KEEP, RunChannel
from chong.supervisor.settings import Settings


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = RunChannel("run.1", os.getpid(), ours.detach(), os.pidfd_open(os.getpid()))
    yield channel, theirs
    channel.close()
    theirs.close()


def test_frames_stay_until_what_they_led_to_is_stored(pair):
    """Peeked at once, popped in order."""
    channel, worker = pair
    for text in (b"one", b"two"):
        worker.send(text)
    assert channel.peek(10) == [b"one", b"two"]
    assert channel.peek(10) == []
    channel.seen(3)
    channel.seen(4)
    channel.pop_stored(3)
    worker.send(b"three")
    assert channel.peek(10) == [b"three"]
    assert channel._socket.recv(100, socket.MSG_DONTWAIT) == b"two"


def test_a_worker_that_left_with_something_unread_is_popped_all_the_same(pair):
    """The kernel tells the reset before what is queued, at whichever call comes next."""
    channel, worker = pair
    worker.send(b"result")
    assert channel.peek(10) == [b"result"]
    channel.seen(2)
    assert channel.send(b"stop")
    worker.close()
    channel.pop_stored(2)
    assert channel.peek(10) == []


def test_no_more_is_read_at_a_time_than_was_asked_for(pair):
    """Whoever writes without end would hold the main loop otherwise."""
    channel, worker = pair
    for text in (b"one", b"two", b"three"):
        worker.send(text)
    assert channel.peek(2) == [b"one", b"two"]
    assert channel.peek(2) == [b"three"]


def test_nothing_is_read_behind_a_last_word(pair):
    """It changes nothing any more, however much it is."""
    channel, worker = pair
    worker.send(b"result")
    assert channel.peek(10) == [b"result"]
    channel.seen(KEEP)
    worker.send(b"more")
    assert channel.peek(10) == []


class Listener:
    """Everything that happens to a run leads to a version that is never stored."""

    def __init__(self):
        self.heard = []

    def happened(self, run, what, event_id, at):
        self.heard.append(what)
        return 5


def test_a_flood_of_what_has_to_be_stored_is_junk(pair, tmp_path, monkeypatch):
    """A worker of ours holds back; one that does not would fill the memory while the store is away."""
    monkeypatch.setattr(processes, "FRAMES_UNSTORED", 20)
    monkeypatch.setattr(processes, "FRAMES_A_TURN", 10)
    channel, worker = pair
    listener, loop = Listener(), Loop()
    inner = Processes(loop, Settings(state_dir=tmp_path), "term", listener)
    for number in range(1, 50):
        worker.send(b'{"kind":"stopping","n":%d,"at":1,"answer":[1,1]}' % number)
    assert [inner._read_frames(channel) for _ in range(4)] == [True, True, True, False]
    failures = [what.failure.kind for what in listener.heard if isinstance(what, FailureArrived)]
    assert (failures, len(listener.heard)) == (["protocol"], 31)
    loop.close()
