"""Who waits for a moment is called when the node's clock has come to it, whatever was done to that clock."""

from datetime import timedelta

import pytest

from chong.store.specimens import START, SetClock
from chong.supervisor import loop as loop_module
from chong.supervisor.loop import Loop
from chong.supervisor.waiting_room import LOOK_SECONDS, SWEEP_FROM, WaitingRoom

HOUR = timedelta(hours=1)


class Played:
    """A loop and a wall clock that move when told to; `called` are those whose time has come."""

    def __init__(self, monkeypatch):
        self.monotonic = 1000.0
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.monotonic)
        self.clock = SetClock()
        self.loop = Loop()
        self.called = []
        self.room = WaitingRoom(self.loop, self.called.append, self.clock)

    def pass_time(self, seconds):
        """Both clocks, timer by timer."""
        end = self.monotonic + seconds
        while (
            next_one := min((when for when, _, timer in self.loop._timers if not timer.cancelled), default=end)
        ) < end:
            self._to(next_one)
        self._to(end)

    def _to(self, monotonic):
        self.clock.advance(monotonic - self.monotonic)
        self.monotonic = monotonic
        self.loop._run_timers()


@pytest.fixture
def played(monkeypatch):
    found = Played(monkeypatch)
    yield found
    found.loop.close()


def test_each_is_called_at_its_time_and_once(played):
    """Whatever the order in which they came; what is due already does not wait at all."""
    assert played.room.holds_back("b", START + 2 * HOUR)
    assert played.room.holds_back("a", START + HOUR)
    assert played.room.holds_back("a", START + HOUR)
    assert [played.room.holds_back("c", due) for due in (None, START, START - HOUR)] == [False, False, False]
    played.pass_time(3599)
    assert (played.called, len(played.room)) == ([], 2)
    played.pass_time(2)
    assert played.called == ["a"]
    played.pass_time(3600)
    assert (played.called, len(played.room)) == (["a", "b"], 0)


def test_who_is_dropped_is_not_called(played):
    """Nor does anything gather of those that come and go long before their time."""
    for number in range(10 * SWEEP_FROM):
        played.room.holds_back(str(number), START + HOUR)
        played.room.drop(str(number))
    assert len(played.room._order) <= SWEEP_FROM + 1
    played.pass_time(7200)
    assert played.called == []


def test_a_clock_that_is_set_forward_is_noticed(played):
    """Within one look, though the timer was for an hour."""
    played.room.holds_back("a", START + HOUR)
    played.clock.advance(3600)
    played.pass_time(LOOK_SECONDS + 1)
    assert played.called == ["a"]


def test_a_clock_that_is_set_back_makes_it_wait_longer(played):
    """A time of day was asked for."""
    played.room.holds_back("a", START + HOUR)
    played.pass_time(1800)
    played.clock.advance(-1800)
    played.pass_time(3000)
    assert played.called == []
    played.pass_time(601)
    assert played.called == ["a"]


def test_a_new_time_takes_the_place_of_the_old_one(played):
    """In both directions."""
    played.room.holds_back("a", START + HOUR)
    played.room.holds_back("a", START + 2 * HOUR)
    played.pass_time(3700)
    assert played.called == []
    played.room.holds_back("a", START + timedelta(seconds=3710))
    played.pass_time(11)
    assert (played.called, len(played.room)) == (["a"], 0)
