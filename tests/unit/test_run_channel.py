"""The supervisor's end of a run, against a real socket."""

import os
import socket

import pytest

from chong.supervisor.run_channel import RunChannel


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
    assert channel.peek() == [b"one", b"two"]
    assert channel.peek() == []
    channel.seen(3)
    channel.seen(4)
    channel.pop_stored(3)
    worker.send(b"three")
    assert channel.peek() == [b"three"]
    assert channel._socket.recv(100, socket.MSG_DONTWAIT) == b"two"


def test_a_worker_that_left_with_something_unread_is_popped_all_the_same(pair):
    """The kernel tells the reset before what is queued, at whichever call comes next."""
    channel, worker = pair
    worker.send(b"result")
    assert channel.peek() == [b"result"]
    channel.seen(2)
    assert channel.send(b"stop")
    worker.close()
    channel.pop_stored(2)
    assert channel.peek() == []
