"""What `decide` makes of a task that asks for another attempt, and what it tells of the end of each."""

from dataclasses import replace
from datetime import timedelta

import pytest
from test_decide import FORKED, LIVE, RAISED, ended, world_at

from chong.store.model import Action, AttemptEnd, Failure, FailureKind, Usage
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.events import TimerName
from chong.supervisor.verdict import ProcessEnd
from chong.worker.options import Backoff

WISH = Failure(FailureKind.EXCEPTION, "chong.worker.Retry", "not there yet")


def begin(world):
    """The next attempt, until its user code runs."""
    world.give_slot()
    world.acknowledge()
    world.answer_spawn()
    world.say(e.Ready())
    world.say(e.Started())
    world.acknowledge()


def wished(world, after, failure=WISH):
    world.say(e.FailureArrived(failure, True, e.RetryAsked(after)))
    return ended(world, ProcessEnd(code=1))


class TestRetryAsked:
    def test_the_task_says_when(self):
        """On record too, for whoever takes it over; the next start waits for nothing."""
        world = world_at(LIVE, backoff=Backoff(first=7.0, most=7.0, jitter=0.0))
        task = wished(world, 90.0)
        assert (task.status, task.due_at) == (Status.RETRYING, task.status_changed_at + timedelta(seconds=90))
        assert e.Requeue(90.0) in world.effects
        world.give_slot()
        assert (world.task.due_at, world.state.retry_asked) == (None, None)

    def test_without_a_time_it_waits_as_the_options_say(self):
        """As after any failure."""
        world = world_at(LIVE, backoff=Backoff(first=7.0, most=7.0, jitter=0.0))
        task = wished(world, None)
        assert task.due_at == task.status_changed_at + timedelta(seconds=7)

    @pytest.mark.parametrize(
        ("attempts", "why"), [(1, "expected retries of at least 1, got 0"), (2, "all 2 attempts are used up")]
    )
    def test_there_are_no_more_attempts_than_retries_allow(self, attempts, why):
        """It fails with what it said, and with the reason, within the bound of a message."""
        world = world_at(LIVE, max_attempts=attempts)
        if attempts > 1:
            wished(world, 0.0)
            begin(world)
        task = wished(world, 0.0, replace(WISH, message="ä" * 250))
        assert (task.status, task.due_at) == (Status.FAILED, None)
        assert task.failure.message.endswith(f"ä; {why}")
        assert len(task.failure.message.encode()) in {499, 500}

    def test_a_timeout_that_came_first_is_no_wish(self):
        """It waits as its definition says, and says itself why no other attempt follows."""
        world = world_at(LIVE, timeout=60.0, backoff=Backoff(first=7.0, most=7.0, jitter=0.0))
        world.fire(TimerName.TIMEOUT)
        task = wished(world, 90.0)
        assert (task.failure.kind, task.due_at) == (
            FailureKind.TIMEOUT,
            task.status_changed_at + timedelta(seconds=7),
        )

    def test_a_stop_beats_it(self):
        """Whenever it came."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        task = wished(world, 90.0)
        assert (task.status, task.failure, task.due_at) == (Status.STOPPED, WISH, None)


class TestAttemptEnd:
    def test_the_change_that_ends_an_attempt_says_how(self):
        """By the exit, the verdict, and what the kernel tells."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(RAISED))
        ended(world, ProcessEnd(code=1, usage=Usage(1.5, None, 2048)))
        assert world.trail[-1].ended == AttemptEnd(
            attempt=1, exit_code=1, kind="exception", cause=RAISED.cause, cpu_seconds=1.5, max_rss_bytes=2048
        )
        assert [step.ended for step in world.trail[:-1]] == [None] * (len(world.trail) - 1)

    def test_so_does_one_that_gives_a_start_up(self):
        """Its process was there."""
        world = world_at(FORKED)
        world.feed(e.GiveUpStart())
        world.end_worker(ProcessEnd(signal=9))
        assert (world.task.status, world.trail[-1].ended) == (Status.QUEUED, AttemptEnd(attempt=1, exit_signal=9))
