"""What is to be done about an event: (state, event) -> (state, effects), without any process, clock or store.

Each rule answers one happening in every phase. `Tasks` performs the effects in order and feeds what comes of
them back as events.
"""

from collections.abc import Callable, Mapping
from typing import Any

from chong.supervisor import desync, requests, runs, starts
from chong.supervisor import events as e
from chong.supervisor.step import Step
from chong.supervisor.task_state import Phase, TaskState

Rules = Mapping[type, Callable[[Step, Any], None]]


def decide(state: TaskState, event: e.Event) -> tuple[TaskState, list[e.Effect]]:
    """The next state and what to do, in order. Pure; raises `IllegalMove` when a rule contradicts the table."""
    step = Step(state, event)
    rule = (_DESYNCED_RULES if state.desynced else _RULES).get(type(event.what))
    if rule is not None:
        rule(step, event.what)
    return step.done()


def _stored(step: Step, stored: e.Stored) -> None:
    state = step.state
    step.know(stored_version=max(state.stored_version, stored.version))
    if state.phase is Phase.CLAIMING and stored.version >= state.start_version:
        starts.start_stored(step)
    elif state.phase is Phase.ENDED and stored.version >= state.task.version:
        runs.end_stored(step)


def _timer_fired(step: Step, fired: e.TimerFired) -> None:
    _ON_TIMER[fired.name](step)


_ON_TIMER: Mapping[e.TimerName, Callable[[Step], None]] = {
    e.TimerName.START: starts.start_overdue,
    e.TimerName.TIMEOUT: runs.time_used_up,
    e.TimerName.TERM: runs.grace_over,
    e.TimerName.KILL: runs.kill_due,
}

_RULES: Rules = {
    e.SlotFree: starts.slot_free,
    e.Stored: _stored,
    e.Spawned: starts.spawned,
    e.SpawnRefused: starts.spawn_refused,
    e.ForkserverLost: starts.forkserver_lost,
    e.Ready: starts.ready,
    e.Started: starts.started,
    e.TakenOver: runs.taken_over,
    e.Checkpointed: runs.checkpointed,
    e.Answered: runs.answered,
    e.ResultArrived: runs.result_arrived,
    e.FailureArrived: runs.failure_arrived,
    e.WorkerEnded: runs.worker_ended,
    e.Exited: runs.exited,
    e.Asked: requests.asked,
    e.GiveUpStart: starts.give_up_start,
    e.GoNotSent: starts.go_not_sent,
    e.DefinitionGone: starts.definition_gone,
    e.NothingHandedOn: starts.nothing_handed_on,
    e.Desynced: desync.desynced,
    e.HolderDead: runs.lost,
    e.SpoolGone: runs.lost,
    e.TimerFired: _timer_fired,
}

_DESYNCED_RULES: Rules = {
    e.Spawned: desync.spawned_for_nobody,
    e.SpawnRefused: desync.unspawned_for_nobody,
    e.ForkserverLost: desync.unspawned_for_nobody,
    e.ResultArrived: desync.last_word_for_nobody,
    e.FailureArrived: desync.last_word_for_nobody,
    e.Exited: desync.exited_for_nobody,
    e.Asked: desync.asked_for_nothing,
    e.TimerFired: desync.timer_fired_for_nobody,
}
"""Once another writer was found; whatever is not listed is ignored."""
