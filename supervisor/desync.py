"""Rules for a task that another writer has changed: nothing of it is written, its process is seen to its end."""

import signal

from chong.supervisor import events as e
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.verdict import ProcessEnd

_FOREIGN = "another writer speaks for the task"


def desynced(step: Step, _: e.Desynced) -> None:
    """From here on nothing of the task is written; what is left of its process is seen to its end."""
    step.know(desynced=True, requeue_after=None)
    step.drop_pending_pause("too_late", _FOREIGN)
    kept = e.TimerName.START if step.state.phase is Phase.SPAWNING else None
    step.do(*(e.Disarm(name) for name in e.TimerName if name is not kept))
    if step.state.has_process:
        step.signal(signal.SIGKILL)
    elif step.state.phase is not Phase.SPAWNING:
        _note_stored_end(step)
        _let_go(step)


def _note_stored_end(step: Step) -> None:
    """The run had ended, and its end was on the way to the store when the other writer came first."""
    task = step.state.task
    exit_ = ProcessEnd(task.exit_code, task.exit_signal)
    is_unreleased = step.state.phase is Phase.ENDED and step.state.pid is not None
    if is_unreleased and exit_.is_known:
        step.note("late_result", _describe_end(step.state, exit_))


def _let_go(step: Step) -> None:
    step.know(phase=Phase.IDLE)
    step.do(e.Disarm(e.TimerName.START), e.LeaveQueue(), e.FreeSlot(), e.Release(), e.Forget())


def spawned_for_nobody(step: Step, spawned: e.Spawned) -> None:
    step.know(phase=Phase.FORKED, pid=spawned.pid)
    step.do(e.Disarm(e.TimerName.START), e.ShutChannel())
    step.signal(signal.SIGKILL)


def unspawned_for_nobody(step: Step, _: e.SpawnRefused | e.ForkserverLost) -> None:
    if step.state.phase is Phase.SPAWNING:
        _let_go(step)


def exited_for_nobody(step: Step, exited: e.Exited) -> None:
    step.note("late_result", _describe_end(step.state, exited.exit))
    _let_go(step)


def _describe_end(state: TaskState, exit_: ProcessEnd) -> str:
    said = "a result" if state.result else f"a failure ({state.failure.kind})" if state.failure else "no result"
    return f"attempt {state.task.attempt} ended with {said} and {exit_.describe()}"


def asked_for_nothing(step: Step, asked: e.Asked) -> None:
    step.complete(asked, "too_late", _FOREIGN)


def timer_fired_for_nobody(step: Step, _: e.TimerFired) -> None:
    if step.state.phase is Phase.SPAWNING:
        step.do(e.ForkserverStuck())


def last_word_for_nobody(step: Step, arrived: e.ResultArrived | e.FailureArrived) -> None:
    """Kept for the note that its end will be."""
    if isinstance(arrived, e.ResultArrived):
        step.know(result=arrived.result)
    else:
        step.know(failure=arrived.failure)
