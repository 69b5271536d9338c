"""What a submission may say beside its task: when it is to run, how urgently, and how often and how long it may."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from node_bench import InProcess, S, seconds, wait_until

from chong.store.errors import ConfigurationError, Refused
from chong.supervisor import intake


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcess]:
    """A node with one slot."""
    made = InProcess()
    try:
        yield made.start(modules=("node_tasks", "node_retry_tasks"), max_parallel=1)
    finally:
        made.finish()


def later(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_a_task_for_later_waits_for_its_time_and_holds_up_nobody(shared: InProcess):
    """It is queued, with its time; what was submitted behind it runs at once in the one slot there is."""
    due = later(1.5)
    waiting = shared.controller.submit("noop", due_at=due, priority=9)
    assert (waiting.status, waiting.due_at, waiting.priority) == (S.QUEUED, due, 9)
    assert shared.run("noop").status is S.SUCCEEDED
    assert shared.task(waiting.id).status is S.QUEUED
    task = shared.end_of(waiting.id)
    trail = shared.store.history(task.id)
    assert 0 <= seconds(due, trail[1].at) < 30
    assert (trail[0].reason.startswith("manual, due 20"), task.due_at) == (True, None)


def test_one_that_waits_for_its_time_is_cancelled_by_a_stop(shared: InProcess):
    """And never runs."""
    waiting = shared.controller.submit("noop", due_at=later(3600))
    shared.controller.stop(waiting.id, "not needed")
    assert shared.end_of(waiting.id).status is S.CANCELLED
    assert shared.controller._term.node.tasks.later == 0


def test_what_is_due_already_runs_at_once(shared: InProcess):
    """As if nothing had been said."""
    task = shared.controller.submit("noop", due_at=later(-3600))
    assert task.due_at is None
    assert shared.end_of(task.id).status is S.SUCCEEDED


def test_its_own_priority_decides(shared: InProcess):
    """Among what waits for the one slot."""
    gate = shared.root / "gate"
    first = shared.begun("until", path=str(gate))
    plain, urgent = (shared.controller.submit("noop", priority=priority) for priority in (None, 1))
    gate.touch()
    ended = shared.ends_of([first, plain.id, urgent.id])
    assert ended[2].started_at < ended[1].started_at


@pytest.mark.parametrize(("retries", "attempts"), [(None, 3), (0, 1), (1, 2)])
def test_its_own_retries_count(shared: InProcess, retries, attempts):
    """In place of the definition's two."""
    task = shared.controller.submit("retry.any", params={"how": "value"}, retries=retries)
    ended = shared.end_of(task.id)
    assert (ended.status, ended.attempt, ended.max_attempts) == (S.FAILED, attempts, attempts)


def test_its_own_time_limit_counts_in_each_attempt(shared: InProcess):
    """Its definition has none."""
    task = shared.controller.submit("retry.any", params={"how": "slow"}, retries=1, run_timeout=0.2)
    ended = shared.end_of(task.id)
    assert (ended.status, ended.attempt, ended.failure.message) == (
        S.FAILED,
        2,
        "the task ran longer than its timeout of 0.2 s",
    )


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"retries": -1}, "retries: expected a whole number from 0 to 1000000, got -1"),
        ({"retries": True}, "retries: expected a whole number from 0 to 1000000, got True"),
        ({"priority": "x"}, "priority: expected a whole number from -1000000 to 1000000, got 'x'"),
        ({"priority": 10**30}, f"priority: expected a whole number from -1000000 to 1000000, got 1{'0' * 30}"),
        ({"run_timeout": 0}, "run_timeout: expected seconds above 0 and up to 31536000, got 0"),
        ({"run_timeout": float("nan")}, "run_timeout: expected seconds above 0 and up to 31536000, got nan"),
        ({"due_at": "soon"}, "due_at: expected an ISO 8601 time with a zone, got 'soon'"),
        ({"due_at": "2030-01-01T00:00"}, "due_at: expected an ISO 8601 time with a zone, got '2030-01-01T00:00'"),
        (
            {"due_at": "9000-01-01T00:00Z"},
            "due_at: expected at most 3660 days from now, got 9000-01-01 00:00:00Z",
        ),
    ],
)
def test_terms_that_make_no_sense_are_refused(shared: InProcess, terms, said):
    """Over the control socket, in one line, and nothing of them is kept."""
    before = set(shared.spooled("submissions"))
    with pytest.raises((ConfigurationError, Refused)) as refused:
        shared.request({"op": "submit", "name": "noop", **terms})
    assert str(refused.value) == said
    assert set(shared.spooled("submissions")) == before


def test_those_that_wait_for_their_time_are_bounded_by_themselves(shared: InProcess, monkeypatch):
    """The others' queue stays free for work that can start."""
    monkeypatch.setattr(intake, "QUEUE_LIMIT", 1)
    waiting = shared.controller.submit("noop", due_at=later(3600))
    with pytest.raises(Refused, match="expected fewer than 1 tasks that wait for their time on this node"):
        shared.controller.submit("noop", due_at=later(3600))
    assert shared.run("noop").status is S.SUCCEEDED
    shared.controller.stop(waiting.id)
    wait_until(lambda: shared.controller._term.node.tasks.later == 0, "room for another one")
