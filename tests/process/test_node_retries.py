"""Retry rules on a whole node: what comes again, how often, and after how long."""

import itertools
from collections.abc import Iterator

import pytest
from node_bench import InProcess, S, seconds


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcess]:
    """A node with the tasks that have such rules."""
    made = InProcess()
    try:
        yield made.start(modules=("node_tasks", "node_retry_tasks"))
    finally:
        made.finish()


@pytest.mark.parametrize(
    ("name", "how", "attempts", "cause"),
    [
        ("any", "value", 3, "ValueError"),
        ("any", "odd", 3, "node_retry_tasks.OddError"),
        ("any", "keyboard", 3, "KeyboardInterrupt"),
        ("any", "exit", 3, "SystemExit"),
        ("any", "crash", 3, "no_result"),
        ("only_os", "connection", 3, "ConnectionResetError"),
        ("only_os", "value", 1, "ValueError"),
        ("only_os", "odd", 1, "node_retry_tasks.OddError"),
        ("only_os", "crash", 1, "no_result"),
        ("only_odd", "odd", 3, "node_retry_tasks.OddError"),
        ("only_odd", "value", 1, "ValueError"),
        ("only_timeouts", "slow", 3, "timeout"),
        ("only_timeouts", "value", 1, "ValueError"),
        ("but_final", "final", 1, "node_retry_tasks.Final"),
        ("but_final", "value", 3, "ValueError"),
        ("but_final", "crash", 3, "no_result"),
        ("but_crashes", "crash", 1, "no_result"),
        ("but_crashes", "value", 3, "ValueError"),
        ("but_values", "value", 1, "ValueError"),
        ("but_values", "connection", 3, "ConnectionResetError"),
        ("but_values", "crash", 1, "no_result"),
    ],
)
def test_an_attempt_comes_again_as_the_rules_say(shared: InProcess, name, how, attempts, cause):
    """Kinds by name, exceptions by class, whatever these are like."""
    task = shared.run(f"retry.{name}", how=how)
    assert (task.status, task.attempt, task.failure.cause) == (S.FAILED, attempts, cause)


def test_attempts_wait_as_the_backoff_says(shared: InProcess):
    """Its first wait, times its factor, up to its bound."""
    task = shared.run("retry.waits")
    moves = [(move.target, move.at) for move in shared.store.history(task.id)]
    failed = [at for status, at in moves if status is S.RETRYING]
    started = [at for status, at in moves if status is S.STARTING][1:]
    waits = [(start - fail).total_seconds() for fail, start in zip(failed, started, strict=True)]
    assert len(waits) == 3
    assert all(wait >= least for wait, least in zip(waits, (0.3, 0.6, 0.6), strict=True))


def test_a_wait_of_zero_is_none(shared: InProcess):
    """Three attempts in less time than the default's first wait."""
    task = shared.run("retry.any", how="value")
    at = [move.at for move in shared.store.history(task.id) if move.target in (S.RETRYING, S.STARTING)]
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(at)][1::2]
    assert max(gaps) < 0.8


class TestWishes:
    """`Retry`, raised by the task itself."""

    def test_it_comes_again_when_it_says_until_its_attempts_are_used_up(self, shared: InProcess):
        """Whatever its rules and its backoff are; the last one fails, and says why no other follows."""
        task = shared.run("ask.plain")
        assert (task.status, task.attempt, task.due_at) == (S.FAILED, 3, None)
        assert (task.failure.cause, task.failure.message) == (
            "chong.worker.Retry",
            "the page is not there yet; all 3 attempts are used up",
        )
        trail = shared.store.history(task.id)
        waits = [seconds(end.at, start.at) for end, start in itertools.pairwise(trail) if end.target is S.RETRYING]
        assert [0.3 <= wait < 30 for wait in waits] == [True, True]
        assert [step.reason for step in trail if step.target is S.RETRYING] == [
            "exception: the page is not there yet"
        ] * 2

    @pytest.mark.parametrize("name", ["ask.async", "ask.backoff"])
    def test_it_is_heard_however_it_is_raised(self, shared: InProcess, name):
        """By a coroutine, or by a class of the task's own; without a time it waits as the backoff says."""
        task = shared.run(name)
        assert (task.status, task.outcome, task.failure) == (S.SUCCEEDED, 2, None)

    def test_without_retries_it_fails_and_says_so(self, shared: InProcess):
        """In one line."""
        task = shared.run("ask.once")
        assert (task.status, task.attempt) == (S.FAILED, 1)
        assert task.failure.message == "once more; expected retries of at least 1, got 0"

    @pytest.mark.parametrize(
        ("how", "said"),
        [
            ("negative", "Retry: after: expected a length of time of at least 0, got -1"),
            ("nan", "Retry: after: expected a length of time of at least 0, got nan"),
            ("far", "Retry: after: expected at most 30d, got '31d'"),
            ("words", """Retry: after: expected a length of time like 30, "30s", "10m" or "1h30m", got 'soon'"""),
            ("reason", "Retry: reason: expected text, got int"),
        ],
    )
    def test_a_wish_that_makes_no_sense_is_an_error_of_the_task(self, shared: InProcess, how, said):
        """It fails as by any other exception."""
        task = shared.run("ask.badly", how=how)
        assert (task.status, task.failure.cause, task.failure.message) == (S.FAILED, "ValueError", said)

    def test_a_stop_beats_it(self, shared: InProcess):
        """The task is over, with what it said on record."""
        task_id = shared.begun("ask.stopped")
        shared.controller.stop(task_id)
        task = shared.end_of(task_id)
        assert (task.status, task.failure.cause, task.attempt) == (S.STOPPED, "chong.worker.Retry", 1)

    def test_it_works_where_each_run_imports_its_module_by_itself(self, bench: InProcess):
        """And so does the state of an attempt that was killed right behind its checkpoint."""
        node = bench.start(modules=("node_exec_tasks",))
        task = node.run("exec.asks")
        assert task.outcome == [3, {"page": 3, "after": {"page": 1}}]
        first, second, last = [step.ended for step in node.store.history(task.id) if step.ended]
        assert (first.attempt, first.kind, first.cause, first.exit_code) == (1, "exception", "chong.worker.Retry", 1)
        assert (second.attempt, second.kind, second.cause, second.exit_signal) == (2, "crashed", "SIGKILL", 9)
        assert (last.attempt, last.kind, last.exit_code, last.forced) == (3, None, 0, False)
        assert all(end.cpu_seconds > 0 and end.max_rss_bytes > 2**20 for end in (first, second, last))
