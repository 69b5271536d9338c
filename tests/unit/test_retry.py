"""Whether a failed attempt comes again, and after how long."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.store.model import FailureKind
from chong.store.specimens import queued, start_of
from chong.supervisor.retry import backoff, is_retried, retry_left, retry_wait
from chong.worker.options import RETRY_KINDS, Backoff, Options

K = FailureKind
TRIES = st.integers(1, 10_000)
SEEDS = st.text(max_size=20)
RULES = st.builds(
    lambda first, factor, longer, jitter: Backoff(first=first, factor=factor, most=first + longer, jitter=jitter),
    st.floats(0, 1e6),
    st.floats(1, 1e300),
    st.floats(0, 1e9),
    st.floats(0, 1, exclude_max=True),
)
STEADY = RULES.map(lambda rule: replace(rule, jitter=0.0))


def test_the_kinds_that_are_retried_are_kinds_of_failure():
    """The worker, which knows no store, names them for both."""
    assert set(RETRY_KINDS) < set(FailureKind)
    assert {kind for kind in FailureKind if is_retried(kind, Options(), None)} == set(RETRY_KINDS)


class TestBackoff:
    @pytest.mark.parametrize(
        ("tries", "wait"), [(1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (1000, 300.0), (10**9, 300.0)]
    )
    def test_by_default_it_doubles_up_to_five_minutes(self, tries, wait):
        """A fifth more or less."""
        assert all(0.8 * wait <= backoff(Backoff(), tries, f"run-{n}") <= 1.2 * wait for n in range(50))

    def test_it_grows_as_the_rule_says(self):
        """From the first wait, by the factor, to the bound."""
        rule = Backoff(first=0.5, factor=3, most=10, jitter=0)
        assert [backoff(rule, tries, "") for tries in range(1, 6)] == [0.5, 1.5, 4.5, 10, 10]

    @given(RULES, TRIES, SEEDS)
    def test_it_stays_within_its_bounds(self, rule, tries, seed):
        """For any rule that can be declared, however many tries."""
        wait = backoff(rule, tries, seed)
        slack = 1 + 1e-9
        assert rule.first * (1 - rule.jitter) <= wait * slack
        assert wait <= rule.most * (1 + rule.jitter) * slack

    @given(STEADY, TRIES, SEEDS)
    def test_without_jitter_it_never_falls(self, rule, tries, seed):
        """And whom it is for does not matter."""
        earlier, later = backoff(rule, tries, seed), backoff(rule, tries + 1, "")
        assert rule.first <= earlier <= later * (1 + 1e-12)
        assert later <= rule.most

    @given(RULES, TRIES, SEEDS)
    def test_the_same_seed_waits_as_long_again(self, rule, tries, seed):
        """Another term computes the same."""
        assert backoff(rule, tries, seed) == backoff(rule, tries, seed)

    def test_tasks_that_failed_together_do_not_come_back_together(self):
        """Their runs differ, so do their waits."""
        failed = [replace(start_of(queued()), id=f"task-{n}") for n in range(50)]
        assert len({retry_wait(task, Backoff()) for task in failed}) == 50

    def test_starts_that_came_to_nothing_do_not_count(self):
        """The wait grows with the attempts that were used."""
        task = replace(start_of(queued()), attempt=5, unstarted=3)
        assert retry_wait(task, Backoff(jitter=0)) == 2.0

    @pytest.mark.parametrize(("since", "left"), [(0.5, 1.5), (3, -1), (-3600, 2)])
    def test_a_former_terms_wait_goes_on_whatever_was_done_to_the_clock(self, since, left):
        """An hour back is no hour more."""
        task = replace(start_of(queued()), attempt=2, unstarted=0)
        now = task.status_changed_at + timedelta(seconds=since)
        assert retry_left(task, Backoff(jitter=0), now) == left


class TestKinds:
    @pytest.mark.parametrize("kind", K)
    def test_by_default_four_kinds_are_retried(self, kind):
        """The others would come to the same again."""
        assert is_retried(kind, Options(), None) is (kind in {K.EXCEPTION, K.TIMEOUT, K.CRASHED, K.START_TIMEOUT})

    @pytest.mark.parametrize(
        ("kind", "retry_on", "no_retry_on", "retried"),
        [
            (K.TIMEOUT, ("timeout",), (), True),
            (K.CRASHED, ("timeout",), (), False),
            (K.TIMEOUT, ("timeout", "crashed"), ("timeout",), False),
            (K.CRASHED, None, ("timeout",), True),
            (K.TIMEOUT, None, ("timeout",), False),
            (K.START_TIMEOUT, ("ValueError",), (), False),
            (K.START_TIMEOUT, None, ("ValueError",), True),
            (K.CRASHED, (), (), False),
            (K.EXCEPTION, ("exception",), (), True),
            (K.EXCEPTION, ("ValueError",), (), False),
            (K.EXCEPTION, None, ("exception",), False),
            (K.RESULT_INVALID, ("result_invalid",), (), False),
        ],
    )
    def test_kinds_are_retried_as_the_options_say(self, kind, retry_on, no_retry_on, retried):
        """By name; what must not be retried wins."""
        assert is_retried(kind, Options(retry_on=retry_on, no_retry_on=no_retry_on), None) is retried

    @pytest.mark.parametrize("word", [True, False])
    def test_of_an_exception_the_worker_has_the_word(self, word):
        """It alone can compare classes."""
        assert is_retried(K.EXCEPTION, Options(retry_on=("ValueError",), no_retry_on=("KeyError",)), word) is word

    @pytest.mark.parametrize("kind", sorted(set(K) - {K.EXCEPTION}))
    def test_of_other_kinds_it_has_none(self, kind):
        """A time-out that met an exception is a time-out."""
        options = Options(retry_on=("timeout",))
        assert is_retried(kind, options, True) is is_retried(kind, options, False) is (kind is K.TIMEOUT)


class TestStoredDue:
    @pytest.mark.parametrize(("since", "left"), [(5, 85), (100, -10), (-3600, 90)])
    def test_the_wait_that_was_stored_goes_on(self, since, left):
        """Whatever the rule says by now; an hour back is no hour more."""
        task = start_of(queued())
        task = replace(task, due_at=task.status_changed_at + timedelta(seconds=90))
        assert retry_left(task, Backoff(), task.status_changed_at + timedelta(seconds=since)) == left

    def test_a_due_time_of_before_is_none(self):
        """An older version has started the task, and left the time of its submission where it was."""
        task = start_of(queued())
        task = replace(task, due_at=task.status_changed_at - timedelta(seconds=90))
        assert retry_left(task, Backoff(jitter=0), task.status_changed_at) == 1.0
