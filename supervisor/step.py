"""One step of a task under construction: the next state and the effects, gathered by `decide`'s rules."""

import signal
from dataclasses import replace
from typing import Any

from chong.store.model import AttemptEnd, Completion, Note, StopMoments, Transition
from chong.store.states import Status, is_allowed
from chong.supervisor.events import (
    AddNote,
    AnswerCommand,
    Arm,
    Asked,
    Disarm,
    Effect,
    Event,
    SaveState,
    SendDown,
    ShutChannel,
    Signal,
    Thaw,
    TimerName,
)
from chong.supervisor.flags import FROZEN, UNKILLABLE
from chong.supervisor.task_state import Phase, TaskState
from chong.worker.wire import Down

_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL})


class IllegalMove(AssertionError):  # noqa: N818 - a fault of chong itself, never of a task
    """A rule asked for a change of state that the table does not have."""


class Step:
    """Collects what one event leads to; `done` gives the new state and the effects, the save first."""

    def __init__(self, state: TaskState, event: Event) -> None:
        self.state = state
        self.event = event
        self._effects: list[Effect] = []
        self._transitions: list[Transition] = []
        self._completes: list[Completion] = []
        self._starts = False

    @property
    def status(self) -> Status:
        return self.state.task.status

    def know(self, **changes: Any) -> None:
        """Change what the node knows, nothing of the task."""
        self.state = replace(self.state, **changes)

    def do(self, *effects: Effect) -> None:
        self._effects.extend(effects)

    def move(
        self,
        target: Status,
        *,
        actor: str | None = None,
        reason: str | None = None,
        starts: bool = False,
        ended: AttemptEnd | None = None,
        **changes: Any,
    ) -> None:
        """Change the task's status by a row of the table, with whatever else changes in it.

        Only what is paused can be frozen, and only what is stopping unkillable.
        """
        task = self.state.task
        if not is_allowed(task.status, target):
            raise IllegalMove(f"task {task.id}: {task.status} -> {target} on {self.event.what}")
        version = task.version + 1
        self._transitions.append(
            Transition(
                task_id=task.id,
                version=version,
                source=task.status,
                target=target,
                at=self.event.at,
                actor=actor or self.state.term,
                event_id=self._event_id(),
                reason=reason,
                ended=ended,
            )
        )
        self._starts = self._starts or starts
        moved = replace(
            task,
            status=target,
            version=version,
            status_changed_at=self.event.at,
            ended_at=self.event.at if target.is_final else task.ended_at,
            lease_owner=self.state.term,
            **changes,
        )
        if target is not Status.PAUSED:
            moved = replace(moved, flags=moved.flags - {FROZEN})
        if target is not Status.STOPPING:
            moved = replace(moved, flags=moved.flags - {UNKILLABLE})
        self.know(task=moved)

    def amend(self, **changes: Any) -> None:
        """Change the task beside this step's move, within the same version."""
        if not self._transitions:
            raise IllegalMove(f"task {self.state.task.id}: {sorted(changes)} would be lost, no version carries them")
        self.know(task=replace(self.state.task, **changes))

    def complete(self, asked: Asked, outcome: str = "done", detail: str | None = None) -> None:
        """End a command: with this step's save when there is one, else by itself."""
        if asked.command_id is not None:
            self._completes.append(Completion(asked.command_id, outcome, detail))

    def note(self, kind: str, detail: str) -> None:
        task = self.state.task
        self.do(
            AddNote(
                Note(
                    task_id=task.id,
                    kind=kind,
                    at=self.event.at,
                    actor=self.state.term,
                    event_id=f"{self.event.id}.{kind}",
                    detail=detail,
                )
            )
        )

    def next_number(self) -> tuple[int, int]:
        self.know(downs=self.state.downs + 1)
        return (self.state.epoch, self.state.downs)

    def send(self, kind: Down, reason: str | None = None) -> tuple[int, int]:
        number = self.next_number()
        self.do(SendDown(kind, number, reason))
        return number

    def thaw(self) -> None:
        """Let the processes of a frozen task run, so that they can hear what comes next."""
        if self.state.is_frozen:
            self.do(Thaw())

    def send_stop(self, reason: str) -> None:
        """Ask the worker to stop; unless it has said its last word, the ladder begins."""
        self.send(Down.STOP, reason)
        if self.state.is_stop_asked:
            self.amend(stop=self.stop_moments(delivered_at=self.event.at))
        if not self.state.has_spoken:
            self.do(Disarm(TimerName.TIMEOUT), Arm(TimerName.TERM, self.state.options.stop_grace))

    def give_up(self) -> None:
        """Give a start up: a worker that was not told to go can then never run user code."""
        self.do(ShutChannel(), Arm(TimerName.KILL, self.state.options.kill_grace))

    def signal(self, *numbers: int) -> None:
        # Until `ready` the worker may not have its own group yet: a signal to the group would miss it.
        group = self.state.phase in {Phase.GOING, Phase.LIVE}
        sent = [signal.Signals(number).name for number in numbers if number in _ENDING]
        if sent and not self.state.killed:  # a SIGKILL without effect is repeated; its flag says so
            self.note("signalled", f"{' and '.join(sent)} to the {'process group' if group else 'process'}")
        self.do(*(Signal(number, group=group) for number in numbers))

    def arm_timeout(self) -> None:
        """Let the running time that is left run on."""
        if self.state.options.timeout is not None and not self.state.has_spoken:
            left = self.state.options.timeout - self.state.running_time(self.event.clock)
            self.do(Arm(TimerName.TIMEOUT, max(0.0, left)))

    def drop_pending_pause(self, outcome: str, detail: str) -> None:
        """End the command of a pause that waited for the start, if there is one."""
        if self.state.pending_pause is not None:
            self.complete(self.state.pending_pause, outcome, detail)
            self.know(pending_pause=None)

    def stop_moments(self, **moments: Any) -> StopMoments | None:
        stop = self.state.task.stop
        return None if stop is None else replace(stop, **moments)

    def done(self) -> tuple[TaskState, list[Effect]]:
        if self._transitions:
            save = SaveState(
                self.state.task, tuple(self._transitions), starts=self._starts, completes=tuple(self._completes)
            )
            return self.state, [save, *self._effects]
        return self.state, [*self._effects, *(AnswerCommand(completion) for completion in self._completes)]

    def _event_id(self) -> str:
        # One event may cause two moves; each needs an id of its own.
        return f"{self.event.id}.{len(self._transitions) + 1}" if self._transitions else self.event.id
