"""Rules for a run whose worker lives: what it says, how long it may take, and how it ends."""

import signal
from dataclasses import replace
from datetime import timedelta
from typing import Any

from chong.store.model import AttemptEnd, Failure, FailureKind
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.flags import UNKILLABLE
from chong.supervisor.retry import backoff, is_retried, refused_retry, retry_wait
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.verdict import ProcessEnd, judge
from chong.worker.options import Backoff
from chong.worker.wire import Down

TEARDOWN_GRACE = 5.0
UNKILLABLE_AFTER = 5.0
"""Seconds after a SIGKILL, when the next one is sent."""


def taken_over(step: Step, _: e.TakenOver) -> None:
    """Send the wanted state again: the former term may have died before or after it did.

    Down frames of this attach have higher numbers than all before, so a repeated one is taken and a lost one
    replaced. Whether `go` was sent is seen from the frames that follow. A freeze counts when it is stored: one that is
    not is undone, and its command, which is open still, comes again.
    """
    step.do(e.Freeze() if step.state.is_frozen else e.Thaw())
    if step.status is Status.STARTING:
        step.know(phase=Phase.FORKED)
        step.do(e.Arm(e.TimerName.START, step.state.options.start_timeout))
        return
    step.know(phase=Phase.LIVE)
    if step.status is Status.STOPPING:
        step.know(timed_out=not step.state.is_stop_asked)
        step.send(Down.STOP, "stop" if step.state.is_stop_asked else "timeout")
        step.do(e.Arm(e.TimerName.TERM, step.state.options.stop_grace))
    elif step.status in {Status.PAUSING, Status.PAUSED}:
        if not step.state.is_frozen:
            step.know(pause_number=step.send(Down.PAUSE))
    else:
        step.send(Down.RESUME)
    if step.status in {Status.RUNNING, Status.PAUSING}:
        step.know(since=step.event.clock)
        step.arm_timeout()


def checkpointed(step: Step, checkpointed: e.Checkpointed) -> None:
    step.do(e.Beaten(checkpointed.progress, step.event.at))


def answered(step: Step, answered: e.Answered) -> None:
    state = step.state
    if answered.kind is Down.STOP:
        stop = state.task.stop
        if step.status is Status.STOPPING and stop is not None and stop.acknowledged_at is None:
            moments = step.stop_moments(acknowledged_at=step.event.at)
            step.move(Status.STOPPING, reason="acknowledged by the task", stop=moments)
    elif answered.kind is Down.PAUSE and step.status is Status.PAUSING and answered.number == state.pause_number:
        step.know(used=state.running_time(step.event.clock), since=None)
        step.do(e.Disarm(e.TimerName.TIMEOUT))
        step.move(Status.PAUSED)


def result_arrived(step: Step, arrived: e.ResultArrived) -> None:
    if step.state.result is None and step.state.has_process:
        step.know(result=arrived.result)
        _expect_exit(step)


def failure_arrived(step: Step, arrived: e.FailureArrived) -> None:
    if step.state.has_spoken or not step.state.has_process:
        return
    step.know(failure=arrived.failure, retry_word=arrived.retry_word, retry_asked=arrived.retry_asked)
    _expect_exit(step)
    if arrived.failure.kind is FailureKind.PROTOCOL:
        step.signal(signal.SIGKILL)


def _expect_exit(step: Step) -> None:
    """The worker has said its last word, just before it was frozen perhaps; it gets a short grace for its teardown."""
    step.thaw()
    step.do(*(e.Disarm(name) for name in (e.TimerName.START, e.TimerName.TIMEOUT, e.TimerName.TERM)))
    step.do(e.Arm(e.TimerName.KILL, TEARDOWN_GRACE))


def time_used_up(step: Step) -> None:
    if step.status in {Status.RUNNING, Status.PAUSING}:
        step.know(timed_out=True)
        step.move(Status.STOPPING, reason="timeout")
        step.send_stop("timeout")


def grace_over(step: Step) -> None:
    if step.state.has_process:
        _know_signalled(step)
        # CONT after TERM: a stopped process sees its pending SIGTERM only when it runs again.
        step.signal(signal.SIGTERM, signal.SIGCONT)
        step.do(e.Arm(e.TimerName.KILL, step.state.options.kill_grace))


def _know_signalled(step: Step) -> None:
    """A worker that has ended is not forced by what is sent to the rest of its group."""
    step.know(signalled=step.state.signalled or not step.state.worker_ended)


def kill_due(step: Step) -> None:
    if not step.state.has_process:
        return
    if step.state.killed and step.status is Status.STOPPING and UNKILLABLE not in step.state.task.flags:
        flags = step.state.task.flags | {UNKILLABLE}
        step.move(Status.STOPPING, reason="SIGKILL has had no effect yet", flags=flags)
    step.signal(signal.SIGKILL)
    _know_signalled(step)
    step.know(killed=True)
    step.do(e.Arm(e.TimerName.KILL, UNKILLABLE_AFTER))


def worker_ended(step: Step, _: e.WorkerEnded) -> None:
    """It can no longer be late; what is left of its group takes the ladder still."""
    step.know(worker_ended=True)
    step.do(e.Disarm(e.TimerName.START), e.Disarm(e.TimerName.TIMEOUT))


def exited(step: Step, exited: e.Exited) -> None:
    step.do(*(e.Disarm(name) for name in e.TimerName))
    # What was decided while nobody knew of its end stands before it on record.
    step.event = replace(step.event, at=max(step.event.at, step.state.task.status_changed_at))
    if exited.exit.usage is not None:
        step.do(e.Measured(exited.exit.usage))
    verdict = judge(step.state.evidence(exited.exit))
    if verdict.odd_exit is not None:
        step.note("odd_exit", f"after a complete result: {verdict.odd_exit}")
    changes: dict[str, Any] = {
        "exit_code": exited.exit.code,
        "exit_signal": exited.exit.signal,
        "failure": verdict.failure,
        "forced": verdict.forced,
        "stop": step.stop_moments(effective_at=step.event.at),
    }
    if verdict.status is Status.SUCCEEDED and step.state.result is not None:
        changes["outcome"] = step.state.result.outcome
    _end_run(step, verdict.status, exited.exit, changes)


def _end_run(step: Step, status: Status, exit_: ProcessEnd, changes: dict[str, Any]) -> None:
    ended = _attempt_end(step.state, exit_, changes)
    step.know(requeue_after=None)
    if status is Status.QUEUED:
        reason = "given up before it was told to go"
        changes = {"unstarted": step.state.task.unstarted + 1}
        unsent = step.state.unsent
        step.know(requeue_after=backoff(Backoff(), unsent, step.event.id) if unsent else 0.0)
    else:
        status = _after_failure(step, status, changes)
        failure: Failure | None = changes["failure"]
        reason = f"{failure.kind}: {failure.message}"[:500] if failure else exit_.describe()
    step.move(status, reason=reason, ended=ended, **changes)
    step.know(phase=Phase.ENDED)
    step.drop_pending_pause("too_late", f"the start came to nothing, the task is {status}")
    step.do(e.FreeSlot())


def _after_failure(step: Step, status: Status, changes: dict[str, Any]) -> Status:
    """Whether a failed attempt is followed by another one; `changes` then tell when, or why not."""
    state, failure = step.state, changes["failure"]
    if status is not Status.FAILED or failure is None:
        return status
    asked = state.retry_asked if failure is state.failure else None  # a time-out, say, takes its place
    if _may_retry(state, failure):
        wait = retry_wait(state.task, state.options.backoff, asked)
        step.know(requeue_after=wait)
        changes["due_at"] = step.event.at + timedelta(seconds=wait)
        return Status.RETRYING
    if asked is not None:
        changes["failure"] = refused_retry(failure, state.task)
    return status


def _attempt_end(state: TaskState, exit_: ProcessEnd, changes: dict[str, Any]) -> AttemptEnd:
    failure, usage = changes["failure"], exit_.usage
    return AttemptEnd(
        attempt=state.task.attempt,
        exit_code=exit_.code,
        exit_signal=exit_.signal,
        forced=changes["forced"],
        kind=None if failure is None else failure.kind.value,
        cause=None if failure is None else failure.cause,
        cpu_seconds=None if usage is None else usage.cpu_seconds,
        max_rss_bytes=None if usage is None else usage.max_rss_bytes,
    )


def _may_retry(state: TaskState, failure: Failure) -> bool:
    left = state.task.attempts_used < state.task.max_attempts
    return left and not state.is_stop_asked and is_retried(failure.kind, state.options, state.retry_word)


def end_stored(step: Step) -> None:
    state = step.state
    step.do(e.Release())
    step.know(phase=Phase.IDLE, pid=None)
    if step.status.is_final:
        step.do(e.Forget())
    elif state.requeue_after is not None:
        step.know(requeue_after=None)
        step.do(e.Requeue(state.requeue_after))


def lost(step: Step, found: e.HolderDead | e.SpoolGone) -> None:
    step.move(Status.LOST, reason=found.reason)
    step.know(phase=Phase.ENDED, requeue_after=None)
    step.do(e.LeaveQueue(), e.FreeSlot())
