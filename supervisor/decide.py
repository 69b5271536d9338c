"""What is to be done about an event: (state, event) -> (state, effects), without any process, clock or store.

Each rule answers one happening in every phase. The controller performs the effects in order and feeds what
comes of them back as events.
"""

import random
import signal
from collections.abc import Callable
from typing import Any

from chong.store.model import RETRYABLE, Action, Failure, FailureKind, StopMoments
from chong.store.states import RUNS, WAITING, Status
from chong.supervisor import events as e
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.verdict import Exit, judge
from chong.worker.wire import Down

TEARDOWN_GRACE = 5.0
MAX_REFUSALS = 5
BACKOFF_FIRST = 1.0
BACKOFF_CAP = 300.0

_TIMERS = tuple(e.TimerName)


def decide(state: TaskState, event: e.Event) -> tuple[TaskState, list[e.Effect]]:
    """The next state and what to do, in order. Pure; raises `IllegalMove` when a rule contradicts the table."""
    step = Step(state, event)
    rules = _RULES if not state.desynced else _DESYNCED_RULES
    rule = rules.get(type(event.what))
    if rule is not None:
        rule(step, event.what)
    return step.done()


def backoff(tries: int, seed: str) -> float:
    """Seconds before the next try: 1 s doubled each time, up to 5 minutes, a fifth more or less by `seed`."""
    wait = min(BACKOFF_CAP, BACKOFF_FIRST * 2.0 ** min(tries - 1, 30))
    return wait * random.Random(seed).uniform(0.8, 1.2)


# --- starting ------------------------------------------------------------------------------------------------


def _slot_free(step: Step, _: e.SlotFree) -> None:
    step.know(
        result=None,
        failure=None,
        timed_out=False,
        start_timed_out=False,
        given_up=False,
        signalled=False,
        used=0.0,
        since=None,
        pid=None,
        phase=Phase.CLAIMING,
    )
    step.move(
        Status.STARTING,
        starts=True,
        attempt=step.state.task.attempt + 1,
        started_at=None,
        failure=None,
        forced=False,
        exit_code=None,
        exit_signal=None,
    )
    step.know(start_version=step.state.task.version)


def _stored(step: Step, stored: e.Stored) -> None:
    state = step.state
    step.know(stored_version=max(state.stored_version, stored.version))
    if state.phase is Phase.CLAIMING and stored.version >= state.start_version:
        _start_stored(step)
    elif state.phase is Phase.ENDED and stored.version >= state.task.version:
        _end_stored(step)


def _start_stored(step: Step) -> None:
    if step.state.is_stop_asked:
        step.move(Status.STOPPED, reason="before it was forked", stop=step.stop_moments(effective_at=step.event.at))
        step.know(phase=Phase.ENDED)
        step.do(e.FreeSlot())
    elif step.state.given_up:
        _back_to_queue(step, "drained before it was forked", delay=0.0)
    else:
        step.know(phase=Phase.SPAWNING)
        step.do(e.Spawn(), e.Arm(e.TimerName.START, step.state.options.start_timeout))


def _end_stored(step: Step) -> None:
    state = step.state
    step.do(e.Release())
    step.know(phase=Phase.IDLE, pid=None)
    if step.status.is_final:
        step.do(e.Forget())
    elif state.requeue_after is not None:
        step.know(requeue_after=None)
        step.do(e.Requeue(state.requeue_after))


def _spawned(step: Step, spawned: e.Spawned) -> None:
    step.know(phase=Phase.FORKED, pid=spawned.pid)
    if step.state.is_stop_asked or step.state.given_up:
        _give_up(step)
    else:
        step.do(e.Arm(e.TimerName.START, step.state.options.start_timeout))


def _spawn_refused(step: Step, refused: e.SpawnRefused) -> None:
    step.do(e.Disarm(e.TimerName.START))
    if _stopped_unforked(step):
        return
    refusals = step.state.refusals + 1
    step.know(refusals=refusals)
    reason = f"fork refused: {refused.reason}"[:500]
    _back_to_queue(step, reason, delay=backoff(refusals, step.event.id) if refusals < MAX_REFUSALS else None)
    if refusals >= MAX_REFUSALS:
        step.move(Status.FAILED, failure=Failure(FailureKind.SPAWN_FAILED, "fork", reason))
        step.know(phase=Phase.ENDED)


def _forkserver_lost(step: Step, _: e.ForkserverLost) -> None:
    if step.state.phase is not Phase.SPAWNING:
        return  # nothing was asked of it yet, or the worker is there and lives on without it
    step.do(e.Disarm(e.TimerName.START))
    if not _stopped_unforked(step):
        _back_to_queue(step, "the forkserver died before the worker was told to go", delay=0.0)


def _stopped_unforked(step: Step) -> bool:
    if not step.state.is_stop_asked:
        return False
    step.move(Status.STOPPED, reason="before it was forked", stop=step.stop_moments(effective_at=step.event.at))
    step.know(phase=Phase.ENDED)
    step.do(e.FreeSlot())
    return True


def _back_to_queue(step: Step, reason: str, *, delay: float | None) -> None:
    """User code provably never ran: this attempt does not count."""
    step.move(Status.QUEUED, reason=reason, unstarted=step.state.task.unstarted + 1)
    step.know(phase=Phase.IDLE)
    _drop_pending_pause(step, "refused", "the start was given up; the task waits in the queue")
    step.do(e.FreeSlot())
    if delay is not None:
        step.do(e.Requeue(delay))


def _give_up(step: Step) -> None:
    step.do(e.ShutChannel(), e.Arm(e.TimerName.KILL, step.state.options.kill_grace))


def _give_up_start(step: Step, _: e.GiveUpStart) -> None:
    if step.status is not Status.STARTING or step.state.phase is Phase.GOING:
        return
    step.know(given_up=True)
    if step.state.phase is Phase.FORKED:
        _give_up(step)


def _ready(step: Step, _: e.Ready) -> None:
    if step.state.phase is not Phase.FORKED:
        return
    if step.status is Status.STARTING and not step.state.given_up:
        step.know(phase=Phase.GOING)
        step.do(e.SendGo(step.next_number()))
    else:
        _give_up(step)


def _started(step: Step, _: e.Started) -> None:
    if step.state.phase is Phase.LIVE:
        return  # seen before: a former term stored it and was killed before it could pop the frame
    step.know(phase=Phase.LIVE, since=step.event.clock, refusals=0)
    step.do(e.Disarm(e.TimerName.START))
    if step.status is not Status.STARTING:
        return
    step.move(Status.RUNNING, started_at=step.event.at)
    _arm_timeout(step)
    pause = step.state.pending_pause
    if pause is not None:
        step.know(pending_pause=None)
        _ask_pause(step, pause)


def _arm_timeout(step: Step) -> None:
    if step.state.options.timeout is not None and not step.state.has_spoken:
        left = step.state.options.timeout - step.state.running_time(step.event.clock)
        step.do(e.Arm(e.TimerName.TIMEOUT, max(0.0, left)))


# --- running -------------------------------------------------------------------------------------------------


def _checkpointed(step: Step, checkpointed: e.Checkpointed) -> None:
    step.do(e.Beaten(checkpointed.progress))


def _answered(step: Step, answered: e.Answered) -> None:
    state = step.state
    if answered.kind is Down.STOP:
        stop = state.task.stop
        if step.status is Status.STOPPING and stop is not None and stop.acknowledged_at is None:
            moments = step.stop_moments(acknowledged_at=step.event.at)
            step.move(Status.STOPPING, reason="acknowledged at a checkpoint", stop=moments)
    elif answered.kind is Down.PAUSE and step.status is Status.PAUSING and answered.number == state.pause_number:
        step.know(used=state.running_time(step.event.clock), since=None)
        step.do(e.Disarm(e.TimerName.TIMEOUT))
        step.move(Status.PAUSED)


def _result_arrived(step: Step, arrived: e.ResultArrived) -> None:
    if step.state.result is None and step.state.has_process:
        step.know(result=arrived.result)
        _expect_exit(step)


def _failure_arrived(step: Step, arrived: e.FailureArrived) -> None:
    if step.state.has_spoken or not step.state.has_process:
        return
    step.know(failure=arrived.failure)
    _expect_exit(step)
    if arrived.failure.kind is FailureKind.PROTOCOL:
        step.do(_signal(step, signal.SIGKILL))


def _expect_exit(step: Step) -> None:
    """The worker has said its last word; it gets a short grace for its teardown."""
    step.do(*(e.Disarm(name) for name in (e.TimerName.START, e.TimerName.TIMEOUT, e.TimerName.TERM)))
    step.do(e.Arm(e.TimerName.KILL, TEARDOWN_GRACE))


def _exited(step: Step, exited: e.Exited) -> None:
    step.do(*(e.Disarm(name) for name in _TIMERS))
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


def _end_run(step: Step, status: Status, exit_: Exit, changes: dict[str, Any]) -> None:
    failure: Failure | None = changes["failure"]
    reason = f"{failure.kind}: {failure.message}"[:500] if failure else exit_.describe()
    step.know(requeue_after=None)
    if status is Status.QUEUED:
        status, reason = Status.QUEUED, "given up before it was told to go"
        changes = {"unstarted": step.state.task.unstarted + 1}
        step.know(requeue_after=0.0)
    elif status is Status.FAILED and failure is not None and _may_retry(step.state, failure):
        status = Status.RETRYING
        step.know(requeue_after=backoff(step.state.task.attempts_used, step.event.id))
    step.move(status, reason=reason, **changes)
    step.know(phase=Phase.ENDED)
    _drop_pending_pause(step, "too_late", f"the start came to nothing, the task is {status}")
    step.do(e.FreeSlot())


def _may_retry(state: TaskState, failure: Failure) -> bool:
    left = state.task.attempts_used < state.task.max_attempts
    return left and failure.kind in RETRYABLE and not state.is_stop_asked


def _describe_end(state: TaskState, exit_: Exit) -> str:
    said = "a result" if state.result else f"a failure ({state.failure.kind})" if state.failure else "no result"
    return f"attempt {state.task.attempt} ended with {said} and {exit_.describe()}"


# --- asked for -----------------------------------------------------------------------------------------------


def _asked(step: Step, asked: e.Asked) -> None:
    if step.status.is_final:
        step.complete(asked, "too_late", f"the task is {step.status}")
    else:
        _ASKS[asked.action](step, asked)


def _ask_stop(step: Step, asked: e.Asked) -> None:
    step.complete(asked)
    if step.state.is_stop_asked:
        return
    moments = StopMoments(step.event.at, asked.by, asked.reason)
    if step.status in WAITING:
        _cancel(step, asked, moments)
        return
    _drop_pending_pause(step, "superseded", "a stop came first")
    step.move(Status.STOPPING, actor=asked.by, reason=asked.reason, stop=moments)
    _deliver_stop(step)


def _cancel(step: Step, asked: e.Asked, moments: StopMoments) -> None:
    moments = StopMoments(moments.asked_at, moments.by, moments.reason, effective_at=step.event.at)
    step.move(Status.CANCELLED, actor=asked.by, reason=asked.reason, stop=moments)
    step.know(phase=Phase.ENDED, requeue_after=None)
    step.do(e.LeaveQueue())


def _deliver_stop(step: Step) -> None:
    if step.state.phase is Phase.FORKED:
        _give_up(step)
    elif step.state.phase in {Phase.GOING, Phase.LIVE} and not step.state.timed_out:
        _send_stop(step, "stop")


def _send_stop(step: Step, reason: str) -> None:
    step.send(Down.STOP, reason)
    if step.state.is_stop_asked:
        moments = step.stop_moments(delivered_at=step.event.at)
        step.amend(stop=moments)
    if not step.state.has_spoken:
        step.do(e.Disarm(e.TimerName.TIMEOUT), e.Arm(e.TimerName.TERM, step.state.options.stop_grace))


def _ask_pause(step: Step, asked: e.Asked) -> None:
    if step.status is Status.RUNNING:
        step.move(Status.PAUSING, actor=asked.by, reason=asked.reason)
        step.know(pause_number=step.send(Down.PAUSE, asked.reason))
        step.complete(asked)
    elif step.status is Status.STARTING:
        waiting = step.state.pending_pause
        if waiting is not None and waiting.command_id != asked.command_id:
            step.complete(asked, "superseded", "an earlier pause waits for the start")
        else:
            step.know(pending_pause=asked)
    elif step.status in {Status.PAUSING, Status.PAUSED}:
        step.complete(asked)
    else:
        step.complete(asked, "refused", f"expected a running task, it is {step.status}")


def _ask_resume(step: Step, asked: e.Asked) -> None:
    if step.status in {Status.PAUSING, Status.PAUSED}:
        since = step.event.clock if step.state.since is None else step.state.since
        step.know(since=since, pause_number=None)
        step.move(Status.RUNNING, actor=asked.by, reason=asked.reason)
        step.send(Down.RESUME, asked.reason)
        _arm_timeout(step)
        step.complete(asked)
    elif step.status in {Status.RUNNING, Status.STARTING}:
        _drop_pending_pause(step, "superseded", "a resume came before the start")
        step.complete(asked)
    else:
        step.complete(asked, "refused", f"expected a paused task, it is {step.status}")


def _drop_pending_pause(step: Step, outcome: str, detail: str) -> None:
    if step.state.pending_pause is not None:
        step.complete(step.state.pending_pause, outcome, detail)
        step.know(pending_pause=None)


_ASKS: dict[Action, Callable[[Step, e.Asked], None]] = {
    Action.STOP: _ask_stop,
    Action.PAUSE: _ask_pause,
    Action.RESUME: _ask_resume,
}


# --- timers and troubles -------------------------------------------------------------------------------------


def _timer_fired(step: Step, fired: e.TimerFired) -> None:
    _ON_TIMER[fired.name](step)


def _start_overdue(step: Step) -> None:
    if step.state.phase is Phase.SPAWNING:
        step.do(e.ForkserverStuck())
    elif step.state.phase in {Phase.FORKED, Phase.GOING}:
        step.know(start_timed_out=True, signalled=True)
        step.do(_signal(step, signal.SIGKILL))


def _time_used_up(step: Step) -> None:
    if step.status in {Status.RUNNING, Status.PAUSING}:
        step.know(timed_out=True)
        step.move(Status.STOPPING, reason="timeout")
        _send_stop(step, "timeout")


def _grace_over(step: Step) -> None:
    if step.state.has_process:
        step.know(signalled=True)
        # CONT after TERM: a stopped process sees its pending SIGTERM only when it runs again.
        step.do(_signal(step, signal.SIGTERM), _signal(step, signal.SIGCONT))
        step.do(e.Arm(e.TimerName.KILL, step.state.options.kill_grace))


def _kill_due(step: Step) -> None:
    if step.state.has_process:
        step.know(signalled=True)
        step.do(_signal(step, signal.SIGKILL))


_ON_TIMER: dict[e.TimerName, Callable[[Step], None]] = {
    e.TimerName.START: _start_overdue,
    e.TimerName.TIMEOUT: _time_used_up,
    e.TimerName.TERM: _grace_over,
    e.TimerName.KILL: _kill_due,
}


def _signal(step: Step, number: signal.Signals) -> e.Signal:
    # Until `ready` the worker may not have its own group yet: a signal to the group would miss it.
    return e.Signal(number, group=step.state.phase in {Phase.GOING, Phase.LIVE})


def _definition_gone(step: Step, gone: e.DefinitionGone) -> None:
    if step.status in WAITING:
        step.move(Status.FAILED, failure=Failure(FailureKind.IMPORT_ERROR, "import", gone.reason[:500]))
        step.know(phase=Phase.ENDED)
        step.do(e.LeaveQueue())


def _desynced(step: Step, _: e.Desynced) -> None:
    """From here on nothing of the task is written; what is left of its process is seen to its end."""
    step.know(desynced=True, requeue_after=None)
    _drop_pending_pause(step, "too_late", _FOREIGN)
    kept = e.TimerName.START if step.state.phase is Phase.SPAWNING else None
    step.do(*(e.Disarm(name) for name in _TIMERS if name is not kept))
    if step.state.has_process:
        step.do(_signal(step, signal.SIGKILL))
    elif step.state.phase is not Phase.SPAWNING:
        _let_go(step)


_FOREIGN = "another writer speaks for the task"


def _let_go(step: Step) -> None:
    step.know(phase=Phase.IDLE)
    step.do(e.Disarm(e.TimerName.START), e.LeaveQueue(), e.FreeSlot(), e.Release(), e.Forget())


def _spawned_for_nobody(step: Step, spawned: e.Spawned) -> None:
    step.know(phase=Phase.FORKED, pid=spawned.pid)
    step.do(e.Disarm(e.TimerName.START), e.ShutChannel(), _signal(step, signal.SIGKILL))


def _unspawned_for_nobody(step: Step, _: e.SpawnRefused | e.ForkserverLost) -> None:
    if step.state.phase is Phase.SPAWNING:
        _let_go(step)


def _exited_for_nobody(step: Step, exited: e.Exited) -> None:
    step.note("late_result", _describe_end(step.state, exited.exit))
    _let_go(step)


def _asked_for_nothing(step: Step, asked: e.Asked) -> None:
    step.complete(asked, "too_late", _FOREIGN)


def _timer_fired_for_nobody(step: Step, _: e.TimerFired) -> None:
    if step.state.phase is Phase.SPAWNING:
        step.do(e.ForkserverStuck())


def _last_word_for_nobody(step: Step, arrived: e.ResultArrived | e.FailureArrived) -> None:
    """Kept for the note that its end will be."""
    if isinstance(arrived, e.ResultArrived):
        step.know(result=arrived.result)
    else:
        step.know(failure=arrived.failure)


def _lost(step: Step, found: e.HolderDead | e.SpoolGone) -> None:
    step.move(Status.LOST, reason=found.reason)
    step.know(phase=Phase.ENDED, requeue_after=None)


_RULES: dict[type, Callable[[Step, Any], None]] = {
    e.SlotFree: _slot_free,
    e.Stored: _stored,
    e.Spawned: _spawned,
    e.SpawnRefused: _spawn_refused,
    e.ForkserverLost: _forkserver_lost,
    e.Ready: _ready,
    e.Started: _started,
    e.Checkpointed: _checkpointed,
    e.Answered: _answered,
    e.ResultArrived: _result_arrived,
    e.FailureArrived: _failure_arrived,
    e.Exited: _exited,
    e.Asked: _asked,
    e.GiveUpStart: _give_up_start,
    e.DefinitionGone: _definition_gone,
    e.Desynced: _desynced,
    e.HolderDead: _lost,
    e.SpoolGone: _lost,
    e.TimerFired: _timer_fired,
}

_DESYNCED_RULES: dict[type, Callable[[Step, Any], None]] = {
    e.Spawned: _spawned_for_nobody,
    e.SpawnRefused: _unspawned_for_nobody,
    e.ForkserverLost: _unspawned_for_nobody,
    e.ResultArrived: _last_word_for_nobody,
    e.FailureArrived: _last_word_for_nobody,
    e.Exited: _exited_for_nobody,
    e.Asked: _asked_for_nothing,
    e.TimerFired: _timer_fired_for_nobody,
}
"""Once another writer was found; whatever is not listed is ignored."""


# --- taking over ---------------------------------------------------------------------------------------------


def take_over(state: TaskState, event: e.Event) -> tuple[TaskState, list[e.Effect]]:
    """A former term's worker is attached and its task adopted: send the wanted state again.

    Down frames of an attach have higher numbers than all before, so a repeated one is taken and a lost one
    replaced. Whether `go` was sent is seen from the frames that follow.
    """
    step = Step(state, event)
    if step.status is Status.STARTING:
        step.know(phase=Phase.FORKED)
        step.do(e.Arm(e.TimerName.START, state.options.start_timeout))
        return step.done()
    step.know(phase=Phase.LIVE)
    if step.status is Status.STOPPING:
        step.know(timed_out=not state.is_stop_asked)
        step.send(Down.STOP, "stop" if state.is_stop_asked else "timeout")
        step.do(e.Arm(e.TimerName.TERM, state.options.stop_grace))
    elif step.status in {Status.PAUSING, Status.PAUSED}:
        step.know(pause_number=step.send(Down.PAUSE))
    else:
        step.send(Down.RESUME)
    if step.status in RUNS - {Status.STOPPING, Status.PAUSED}:
        step.know(since=event.clock)
        _arm_timeout(step)
    return step.done()
