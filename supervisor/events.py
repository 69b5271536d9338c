"""What can happen to a task, and what is to be done about it: the vocabulary of `decide`."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from chong.store.model import Action, Completion, Failure, Note, Progress, TaskSnapshot, Transition, Usage
from chong.supervisor.verdict import ProcessEnd, Result
from chong.worker.wire import Down

# --- events --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotFree:
    """The queue gave the task a slot; its worker is to come from this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The store has the task at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Spawned:
    """The forkserver forked a worker, or a former term's worker was found."""

    pid: int


@dataclass(frozen=True, slots=True)
class SpawnRefused:
    reason: str


@dataclass(frozen=True, slots=True)
class ForkserverLost:
    """The forkserver died; what was not forked, or not told to go, never ran user code."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A former term's worker is attached, and its task adopted by this one."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker waits for `go`."""


@dataclass(frozen=True, slots=True)
class Started:
    """The worker is about to run user code."""


@dataclass(frozen=True, slots=True)
class Checkpointed:
    progress: Progress


@dataclass(frozen=True, slots=True)
class Answered:
    """The worker answered the down frame `number`: it is stopping, or has paused."""

    kind: Down
    number: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ResultArrived:
    result: Result


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """The task itself wants a further attempt, `after` so many seconds; None for what its definition says."""

    after: float | None = None


@dataclass(frozen=True, slots=True)
class FailureArrived:
    """`retry_word`: whether the definition lets this exception be retried, as far as the worker has said."""

    failure: Failure
    retry_word: bool | None = None
    retry_asked: RetryAsked | None = None


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The worker is a zombie: no signal can end it any more. Its `Exited` comes when nothing of the run is left."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended, nothing of the run is left, and its channel was read to the end."""

    exit: ProcessEnd


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody wants the task stopped, paused, frozen or resumed; `command_id` is None when the node itself does.

    issued_at: when an operator said so, which the node may hear much later.
    """

    action: Action
    by: str
    reason: str | None = None
    command_id: str | None = None
    issued_at: datetime | None = None


def event_of_command(command_id: str) -> str:
    """The id of the event that a command is; the further changes of one step have it with a number behind."""
    return f"command.{command_id}"


def is_of_command(event_id: str, command_id: str | None = None) -> bool:
    """Whether a change with this event's id was caused by the command; by any, where none is named."""
    if command_id is None:
        return event_id.startswith(event_of_command(""))
    return event_id == event_of_command(command_id) or event_id.startswith(event_of_command(command_id) + ".")


@dataclass(frozen=True, slots=True)
class GiveUpStart:
    """The supervisor drains: a start that has not reached user code goes back to the queue."""


@dataclass(frozen=True, slots=True)
class GoNotSent:
    """The node could not hand over what the worker needs: the start is given up, and tried again after a while."""


@dataclass(frozen=True, slots=True)
class DefinitionGone:
    """No loaded module defines the task."""

    reason: str


@dataclass(frozen=True, slots=True)
class NothingHandedOn:
    """What a member of a pipeline was to be handed is not there, or does not fit."""

    reason: str


@dataclass(frozen=True, slots=True)
class Desynced:
    """Another writer changed the task in the store: this term no longer speaks for it."""

    detail: str


@dataclass(frozen=True, slots=True)
class HolderDead:
    """Whoever managed the run is dead, and what became of the run cannot be known."""

    reason: str


@dataclass(frozen=True, slots=True)
class SpoolGone:
    """The node no longer has what it would need to run the waiting task."""

    reason: str


class TimerName(StrEnum):
    START = "start"
    """The worker must have started."""
    TIMEOUT = "timeout"
    """The task's running time is used up."""
    TERM = "term"
    """The grace for a checkpoint is over."""
    KILL = "kill"
    """The grace after SIGTERM, or for a teardown, is over."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    name: TimerName


Happening = (
    SlotFree
    | Stored
    | Spawned
    | SpawnRefused
    | ForkserverLost
    | TakenOver
    | Ready
    | Started
    | Checkpointed
    | Answered
    | ResultArrived
    | FailureArrived
    | WorkerEnded
    | Exited
    | Asked
    | GiveUpStart
    | GoNotSent
    | DefinitionGone
    | NothingHandedOn
    | Desynced
    | HolderDead
    | SpoolGone
    | TimerFired
)


@dataclass(frozen=True, slots=True)
class Event:
    """A happening with its times and its id.

    at: when it happened, for people. clock: monotonic seconds, for lengths of time. id: names the cause of a
    transition, equal whenever the same thing is seen again.
    """

    what: Happening
    at: datetime
    clock: float
    id: str


# --- effects -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SaveState:
    """Store the snapshot; with `starts` a lease for a new attempt is created."""

    snapshot: TaskSnapshot
    transitions: tuple[Transition, ...]
    starts: bool = False
    completes: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True)
class AddNote:
    note: Note


@dataclass(frozen=True, slots=True)
class AnswerCommand:
    """End a command that changed no state."""

    completion: Completion


@dataclass(frozen=True, slots=True)
class Beaten:
    """The task made progress at that time."""

    progress: Progress
    at: datetime


@dataclass(frozen=True, slots=True)
class Measured:
    """What the run has used in all, told by the kernel at its end."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Spawn:
    """Ask the forkserver for a worker."""


@dataclass(frozen=True, slots=True)
class SendGo:
    """Send the parameters: user code may run."""

    number: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SendDown:
    """Send a stop, pause or resume, and wake the worker."""

    kind: Down
    number: tuple[int, int]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ShutChannel:
    """Give a start up: a worker that was not told to go can then never run user code."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Signal the worker's group, or the worker alone until it has one."""

    number: int
    group: bool = True


@dataclass(frozen=True, slots=True)
class Freeze:
    """Let no process of the run get any processor time."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Undo a freeze."""


@dataclass(frozen=True, slots=True)
class ForkserverStuck:
    """The forkserver did not answer a spawn in time."""


@dataclass(frozen=True, slots=True)
class Arm:
    name: TimerName
    seconds: float


@dataclass(frozen=True, slots=True)
class Disarm:
    name: TimerName


@dataclass(frozen=True, slots=True)
class Requeue:
    """The task waits for a slot again, after a delay in seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class LeaveQueue:
    """The task no longer waits for a slot."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """No process of the task is left."""


@dataclass(frozen=True, slots=True)
class Release:
    """The end is stored: the process may be reaped and the run's files may go."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The final state is stored: nothing of the task needs to be kept on the node."""


Effect = (
    SaveState
    | AddNote
    | AnswerCommand
    | Beaten
    | Measured
    | Spawn
    | SendGo
    | SendDown
    | ShutChannel
    | Signal
    | Freeze
    | Thaw
    | ForkserverStuck
    | Arm
    | Disarm
    | Requeue
    | LeaveQueue
    | FreeSlot
    | Release
    | Forget
)
