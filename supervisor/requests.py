"""Rules for what somebody asks of a task: stop, pause, freeze, resume."""

from collections.abc import Callable
from dataclasses import replace

from chong.store.model import Action, StopMoments
from chong.store.states import WAITING, Status
from chong.supervisor import events as e
from chong.supervisor.flags import FROZEN
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase
from chong.worker.wire import Down


def asked(step: Step, asked: e.Asked) -> None:
    if step.status.is_final:
        step.complete(asked, "too_late", f"the task is {step.status}")
    else:
        _ASKS[asked.action](step, asked)


def _ask_stop(step: Step, asked: e.Asked) -> None:
    step.complete(asked)
    if step.state.is_stop_asked:
        return
    # By the asker's clock, which may be ahead of ours: nobody hears of a stop before it is asked for.
    asked_at = min(asked.issued_at or step.event.at, step.event.at)
    moments = StopMoments(asked_at, asked.by, asked.reason)
    if step.status in WAITING:
        _cancel(step, asked, moments)
        return
    step.drop_pending_pause("superseded", "a stop came first")
    step.thaw()
    step.move(Status.STOPPING, actor=asked.by, reason=asked.reason, stop=moments)
    _deliver_stop(step)


def _cancel(step: Step, asked: e.Asked, moments: StopMoments) -> None:
    moments = StopMoments(moments.asked_at, moments.by, moments.reason, effective_at=step.event.at)
    step.move(Status.CANCELLED, actor=asked.by, reason=asked.reason, stop=moments)
    step.know(phase=Phase.ENDED, requeue_after=None)
    step.do(e.LeaveQueue())


def _deliver_stop(step: Step) -> None:
    if step.state.phase is Phase.FORKED:
        step.give_up()
    elif step.state.phase in {Phase.GOING, Phase.LIVE} and not step.state.timed_out:
        step.send_stop("stop")


def ask_pending(step: Step, asked: e.Asked) -> None:
    """A pause or a freeze that waited for the start; on record it is what caused the change, not the start."""
    if asked.command_id is not None:
        step.event = replace(step.event, id=e.event_of_command(asked.command_id))
    _ASKS[asked.action](step, asked)


def _wait_for_start(step: Step, asked: e.Asked) -> None:
    waiting = step.state.pending_pause
    if waiting is not None and waiting.command_id != asked.command_id:
        step.complete(asked, "superseded", "an earlier pause waits for the start")
    else:
        step.know(pending_pause=asked)


def _ask_pause(step: Step, asked: e.Asked) -> None:
    if step.status is Status.RUNNING:
        step.move(Status.PAUSING, actor=asked.by, reason=asked.reason)
        step.know(pause_number=step.send(Down.PAUSE, asked.reason))
        step.complete(asked)
    elif step.status is Status.STARTING:
        _wait_for_start(step, asked)
    elif step.status in {Status.PAUSING, Status.PAUSED}:
        step.complete(asked)
    else:
        step.complete(asked, "refused", f"expected a running task, it is {step.status}")


def _ask_freeze(step: Step, asked: e.Asked) -> None:
    if step.status is Status.STARTING:
        _wait_for_start(step, asked)
    elif step.status not in {Status.RUNNING, Status.PAUSING, Status.PAUSED}:
        step.complete(asked, "refused", f"expected a running task, it is {step.status}")
    elif step.state.is_frozen:
        step.complete(asked)
    elif step.state.has_spoken:
        step.complete(asked, "too_late", "the task is over, its process is about to end")
    else:
        _freeze(step, asked)


def _freeze(step: Step, asked: e.Asked) -> None:
    """Nobody has to answer: it is paused as soon as its processes are stopped."""
    step.do(e.Disarm(e.TimerName.TIMEOUT), e.Freeze())
    step.know(used=step.state.running_time(step.event.clock), since=None, pause_number=None)
    reason = asked.reason or "frozen"
    if step.status is Status.RUNNING:
        step.move(Status.PAUSING, actor=asked.by, reason=reason)
    step.move(Status.PAUSED, actor=asked.by, reason=reason, flags=step.state.task.flags | {FROZEN})
    step.complete(asked)


def _ask_resume(step: Step, asked: e.Asked) -> None:
    if step.status in {Status.PAUSING, Status.PAUSED}:
        since = step.event.clock if step.state.since is None else step.state.since
        step.know(since=since, pause_number=None)
        step.thaw()
        step.move(Status.RUNNING, actor=asked.by, reason=asked.reason)
        step.send(Down.RESUME, asked.reason)
        step.arm_timeout()
        step.complete(asked)
    elif step.status in {Status.RUNNING, Status.STARTING}:
        step.drop_pending_pause("superseded", "a resume came before the start")
        step.complete(asked)
    else:
        step.complete(asked, "refused", f"expected a paused task, it is {step.status}")


_ASKS: dict[Action, Callable[[Step, e.Asked], None]] = {
    Action.STOP: _ask_stop,
    Action.PAUSE: _ask_pause,
    Action.FREEZE: _ask_freeze,
    Action.RESUME: _ask_resume,
}
