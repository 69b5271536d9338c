"""The supervisor's end of a run, against a real socket."""

import os
import socket
from pathlib import Path

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


def test_a_message_of_no_bytes_is_one(pair):
    """It is no end: what a task sends behind it is read, and each is popped on its own."""
    channel, worker = pair
    for text in (b"", b"one", b"", b""):
        worker.send(text)
    assert channel.peek(10) == [b"", b"one", b"", b""]
    assert channel.peek(10) == []
    for version in (1, 2, 3, 4):
        channel.seen(version)
    channel.pop_stored(3)
    worker.send(b"two")
    assert channel.peek(10) == [b"two"]
    channel.pop_stored(4)
    worker.close()
    assert channel.peek(10) == []
    channel.seen(5)
    channel.pop_stored(5)
    assert channel.peek(10) == []


def test_descriptors_that_a_worker_sends_along_are_not_taken(pair):
    """They would stay open here for ever."""
    channel, worker = pair
    before = len(list(Path("/proc/self/fd").iterdir()))
    socket.send_fds(worker, [b"one"], [0, 1, 2])
    assert channel.peek(10) == [b"one"]
    channel.seen(1)
    channel.pop_stored(1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
