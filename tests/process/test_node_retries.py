"""Retry rules on a whole node: what comes again, how often, and after how long."""

import itertools
from collections.abc import Iterator

import pytest
from node_bench import InProcess, S


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
