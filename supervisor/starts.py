"""Rules for a start: from a free slot to the first line of user code, or back to the queue."""

import signal

from chong.store.model import Failure, FailureKind
from chong.store.states import WAITING, Status
from chong.supervisor import events as e
from chong.supervisor.requests import ask_pending
from chong.supervisor.retry import backoff
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase
from chong.worker.options import Backoff

MAX_REFUSALS = 5


def slot_free(step: Step, free: e.SlotFree) -> None:
    step.know(
        generation=free.generation,
        result=None,
        failure=None,
        retry_word=None,
        retry_asked=None,
        timed_out=False,
        start_timed_out=False,
        given_up=False,
        signalled=False,
        killed=False,
        worker_ended=False,
        used=0.0,
        since=None,
        pid=None,
        phase=Phase.CLAIMING,
    )
    step.move(
        Status.STARTING,
        starts=True,
        attempt=step.state.task.attempt + 1,
        due_at=None,
        started_at=None,
        failure=None,
        forced=False,
        exit_code=None,
        exit_signal=None,
    )
    step.know(start_version=step.state.task.version)


def start_stored(step: Step) -> None:
    if _stopped_unforked(step):
        return
    if step.state.given_up:
        _back_to_queue(step, "the supervisor drained before it was forked", delay=0.0)
    else:
        step.know(phase=Phase.SPAWNING)
        step.do(e.Spawn(), e.Arm(e.TimerName.START, step.state.options.start_timeout))


def spawned(step: Step, spawned: e.Spawned) -> None:
    step.know(phase=Phase.FORKED, pid=spawned.pid)
    if step.state.is_stop_asked or step.state.given_up:
        step.give_up()
    else:
        step.do(e.Arm(e.TimerName.START, step.state.options.start_timeout))


def spawn_refused(step: Step, refused: e.SpawnRefused) -> None:
    step.do(e.Disarm(e.TimerName.START))
    if _stopped_unforked(step):
        return
    refusals = step.state.refusals + 1
    step.know(refusals=refusals)
    reason = f"fork refused: {refused.reason}"[:500]
    if refusals < MAX_REFUSALS:
        _back_to_queue(step, reason, delay=backoff(Backoff(), refusals, step.event.id))
        return
    step.drop_pending_pause("too_late", f"the start came to nothing, the task is {Status.FAILED}")
    _back_to_queue(step, reason, delay=None)
    step.move(Status.FAILED, failure=Failure(FailureKind.SPAWN_FAILED, "fork", reason))
    step.know(phase=Phase.ENDED)


def forkserver_lost(step: Step, _: e.ForkserverLost) -> None:
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
    step.drop_pending_pause("refused", "the start was given up; the task waits in the queue")
    step.do(e.FreeSlot())
    if delay is not None:
        step.do(e.Requeue(delay))


def give_up_start(step: Step, _: e.GiveUpStart) -> None:
    if step.status is not Status.STARTING or step.state.phase is Phase.GOING:
        return
    step.know(given_up=True)
    if step.state.phase is Phase.FORKED:
        step.give_up()


def go_not_sent(step: Step, _: e.GoNotSent) -> None:
    """The worker waits for a word that will not come. What keeps the node from it may last, as a full disk does."""
    if step.state.phase is Phase.GOING:
        step.know(phase=Phase.FORKED, unsent=step.state.unsent + 1, given_up=True)
        step.give_up()


def ready(step: Step, _: e.Ready) -> None:
    if step.state.phase is not Phase.FORKED:
        return
    if step.status is Status.STARTING and not step.state.given_up:
        step.know(phase=Phase.GOING)
        step.do(e.SendGo(step.next_number()))
    else:
        step.give_up()


def started(step: Step, _: e.Started) -> None:
    if step.state.phase is Phase.LIVE:
        return  # seen before: a former term stored it and was killed before it could pop the frame
    step.know(phase=Phase.LIVE, since=step.event.clock, refusals=0, unsent=0)
    step.do(e.Disarm(e.TimerName.START))
    if step.status is not Status.STARTING:
        return
    step.move(Status.RUNNING, started_at=step.event.at)
    step.arm_timeout()
    pause = step.state.pending_pause
    if pause is not None:
        step.know(pending_pause=None)
        ask_pending(step, pause)


def start_overdue(step: Step) -> None:
    if step.state.phase is Phase.SPAWNING:
        step.do(e.ForkserverStuck())
    elif step.state.phase in {Phase.FORKED, Phase.GOING}:
        step.know(start_timed_out=True, signalled=True)
        step.signal(signal.SIGKILL)


def definition_gone(step: Step, gone: e.DefinitionGone) -> None:
    _fail_unstarted(step, Failure(FailureKind.IMPORT_ERROR, "import", gone.reason[:500]))


def nothing_handed_on(step: Step, missing: e.NothingHandedOn) -> None:
    _fail_unstarted(step, Failure(FailureKind.PROTOCOL, "nothing_handed_on", missing.reason[:500]))


def _fail_unstarted(step: Step, failure: Failure) -> None:
    if step.status in WAITING:
        step.move(Status.FAILED, reason=failure.message, failure=failure)
        step.know(phase=Phase.ENDED)
        step.do(e.LeaveQueue())
