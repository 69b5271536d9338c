"""The loop runs what is due in its own thread, and tells of each change of a descriptor once."""

import os
import socket
import threading
from pathlib import Path

import pytest

from chong.supervisor import loop as loop_module
from chong.supervisor.loop import Loop


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


class PlayedLoop:
    """A loop whose clock moves to the next timer instead of waiting for it."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.turns = 0
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.now)
        self.loop = Loop()
        self.loop._timeout = lambda: 0

    def run(self, *, turns=1):
        """Come round so often."""
        self.loop._ended = False
        self.turns = turns
        self.loop.run(self._turn)

    def _turn(self):
        self.turns -= 1
        if self.turns <= 0:
            self.loop.end()


@pytest.fixture
def played(monkeypatch):
    played = PlayedLoop(monkeypatch)
    yield played
    played.loop.close()


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


class TestTimers:
    def test_they_run_when_they_are_due(self, played):
        """Not before, in the order of their times, and once."""
        ran = []
        for seconds in (3, 1, 2):
            played.loop.later(seconds, lambda seconds=seconds: ran.append(seconds))
        for now in (1000.9, 1001, 1002.5, 1010):
            played.now = now
            played.run()
            ran.append("turn")
        assert ran == ["turn", 1, "turn", 2, "turn", 3, "turn"]

    def test_equal_times_run_in_order(self, played):
        """Of their arming."""
        ran = []
        for number in range(5):
            played.loop.later(0, lambda number=number: ran.append(number))
        played.run()
        assert ran == [0, 1, 2, 3, 4]

    def test_a_cancelled_one_does_not_run(self, played):
        """Even when another one of the same round cancels it."""
        ran = []

        def cancel():
            second.cancel()

        played.loop.later(0, cancel)
        second = played.loop.later(0, lambda: ran.append("second"))
        played.run()
        assert ran == []

    def test_one_may_arm_another(self, played):
        """It runs when it is due in its turn."""
        ran = []
        played.loop.later(0, lambda: played.loop.later(5, lambda: ran.append(played.now)))
        played.run()
        played.now += 5
        played.run()
        assert ran == [1005.0]

    def test_the_wait_ends_with_the_next_timer(self, loop):
        """And never lasts longer than a beat."""
        assert loop._timeout() == loop_module.MAX_SLEEP
        loop.later(1000, lambda: None)
        assert loop._timeout() == loop_module.MAX_SLEEP
        loop.later(-1, lambda: None)
        assert loop._timeout() == 0.0

    def test_a_waiting_call_leaves_no_time_to_sleep(self, loop):
        """It is to run at once."""
        loop.call(lambda: None)
        assert loop._timeout() == 0


class TestCalls:
    def test_another_thread_wakes_it(self, loop):
        """The call runs in the loop's own thread."""
        threads = []

        def record():
            threads.append(threading.get_ident())
            loop.end()

        other = threading.Thread(target=lambda: loop.call(record))
        other.start()
        loop.run(lambda: None)
        other.join()
        assert [threading.get_ident()] == threads

    def test_calls_run_in_order(self, played):
        """Those made meanwhile in the next round, so that none starves the rest."""
        ran = []
        played.loop.call(lambda: (ran.append(1), played.loop.call(lambda: ran.append(3))))
        played.loop.call(lambda: ran.append(2))
        played.run()
        assert ran == [1, 2]
        played.run()
        assert ran == [1, 2, 3]

    def test_a_call_after_the_end_does_no_harm(self):
        """Threads end later than the loop."""
        loop = Loop()
        loop.close()
        other = os.eventfd(0, os.EFD_NONBLOCK)  # gets the number of one of the loop's, now that those are free
        loop.call(lambda: None)
        with pytest.raises(BlockingIOError):
            os.eventfd_read(other)
        os.close(other)

    def test_a_callback_that_raises_ends_the_loop(self, played):
        """Whoever runs it hears why."""
        played.loop.call(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            played.run()

    def test_it_says_when_it_last_came_round(self, played):
        """Others judge by it whether it is stuck."""
        played.now += 7
        played.run()
        assert played.loop.turned_at == 1007.0


class TestDescriptors:
    def test_a_change_is_told_once(self, played, pair):
        """What is left unread stays, and is not told again."""
        near, far = pair
        told = []
        played.loop.watch(near.fileno(), lambda: told.append(len(told)))
        played.run(turns=3)
        assert told == []
        far.send(b"1")
        played.run(turns=3)
        assert told == [0]
        far.send(b"2")
        played.run(turns=3)
        assert (told, near.recv(10)) == ([0, 1], b"12")

    def test_what_is_readable_already_is_told(self, played, pair):
        """Also when it is watched anew."""
        near, far = pair
        far.send(b"1")
        told = []
        for name in ("first", "second"):
            played.loop.watch(near.fileno(), lambda name=name: told.append(name))
            played.run(turns=3)
        assert told == ["first", "second"]

    def test_room_to_write_is_told_where_it_is_wanted(self, played, pair):
        """And only there."""
        near, far = pair
        told = []
        played.loop.watch(near.fileno(), lambda: told.append("near"), write=True)
        played.loop.watch(far.fileno(), lambda: told.append("far"))
        played.run(turns=2)
        assert told == ["near"]

    def test_what_is_forgotten_is_told_no_more(self, played, pair):
        """Even when both were ready in one round."""
        near, far = pair
        told = []
        for one, other in ((near, far), (far, near)):
            other.send(b"1")
            played.loop.watch(
                one.fileno(), lambda one=one, other=other: (told.append(one), played.loop.forget(other.fileno()))
            )
        played.run(turns=3)
        assert len(told) == 1

    def test_forgetting_a_stranger_does_no_harm(self, played, pair):
        """It may have been forgotten before; those that are watched are told as ever."""
        near, far = pair
        told = []
        played.loop.watch(near.fileno(), lambda: told.append(near.recv(1)))
        played.loop.forget(999)
        far.send(b"1")
        played.run()
        assert told == [b"1"]

    def test_the_other_ends_death_is_told(self, played, pair):
        """As something to read."""
        near, far = pair
        told = []
        played.loop.watch(near.fileno(), lambda: told.append(near.recv(1)))
        far.close()
        played.run(turns=2)
        assert told == [b""]

    def test_nothing_is_left_open(self):
        """After the end."""
        before = open_descriptors()
        Loop().close()
        assert before == open_descriptors()
