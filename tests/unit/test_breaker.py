"""What counts as a crash, and how many are too many."""

from dataclasses import replace

import pytest

from chong.store.model import Failure, FailureKind
from chong.store.specimens import queued, step
from chong.store.states import Status
from chong.supervisor.breaker import WINDOW, Breaker, crash_of
from chong.supervisor.events import SaveState
from chong.supervisor.verdict import ProcessEnd, crashed

CRASHES = 5
S = Status


def ended(failure, target=S.FAILED, source=S.RUNNING):
    before = replace(queued(), status=source)
    after = replace(before, status=target, version=before.version + 1, failure=failure)
    return SaveState(after, (step(before, after),))


class TestWhatCounts:
    @pytest.mark.parametrize("end", [ProcessEnd(signal=11), ProcessEnd(code=0), ProcessEnd(code=7), ProcessEnd()])
    @pytest.mark.parametrize("target", [S.FAILED, S.RETRYING])
    def test_a_process_that_went_without_a_word_counts(self, end, target):
        """By a signal, by an exit, or in a way that nobody saw; whether it is tried again or not."""
        failure = crashed(end)
        assert crash_of(ended(failure, target)) == failure.cause

    @pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind is not FailureKind.CRASHED])
    def test_other_failures_do_not_count(self, kind):
        """A task that raises is in order; only its work is not."""
        assert crash_of(ended(Failure(kind, "cause", "text"))) is None

    def test_the_nodes_own_doing_does_not_count(self):
        """A worker that was ended because no supervisor came is nobody's bug."""
        assert crash_of(ended(Failure(FailureKind.CRASHED, "orphaned", "nobody came"))) is None

    def test_a_stop_does_not_count(self):
        """Whatever is told beside it."""
        assert crash_of(ended(crashed(ProcessEnd(signal=9)), S.STOPPED, S.STOPPING)) is None

    def test_a_later_change_of_a_crashed_task_does_not_count_again(self):
        """Its failure still stands on it."""
        assert crash_of(ended(crashed(ProcessEnd(signal=11)), S.FAILED, S.RETRYING)) is None


class TestHowMany:
    def test_so_many_within_the_window_are_too_many(self):
        """The last one trips it, none before."""
        breaker = Breaker(CRASHES)
        assert [breaker.crashed("a", 100.0 * n) for n in range(CRASHES)] == [False] * (CRASHES - 1) + [True]

    def test_the_window_slides(self):
        """One in three minutes never trips it, five around the turn of a window do."""
        breaker = Breaker(CRASHES)
        assert not any(breaker.crashed("a", 180.0 * n) for n in range(50))
        late = 180.0 * 50
        assert [breaker.crashed("a", late + n) for n in range(4)].index(True) <= 3

    def test_just_within_and_just_without(self):
        """The bound itself is within."""
        times = [0.0, 1.0, 2.0, 3.0, WINDOW]
        within, without = Breaker(CRASHES), Breaker(CRASHES)
        assert [within.crashed("a", at) for at in times][-1] is True
        assert [without.crashed("a", at) for at in [*times[:-1], WINDOW + 0.1]][-1] is False

    def test_each_name_counts_for_itself(self):
        """One broken task does not hold up the others."""
        breaker = Breaker(CRASHES)
        assert not any(breaker.crashed(name, 0.0) for name in "abcdabcdabcdabcd")

    def test_after_it_tripped_the_count_begins_anew(self):
        """Whoever releases the name gives it another five."""
        breaker = Breaker(CRASHES)
        assert [breaker.crashed("a", float(n)) for n in range(2 * CRASHES)].count(True) == 2
