"""The supervisor's end of a run, against a real socket."""

import os
import socket

import pytest

from chong.supervisor.run_channel import KEEP, RunChannel


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
