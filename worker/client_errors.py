"""What a client of a node raises, in one tree; each text is one line.

ClientError
├── NodeUnreachable     no supervisor answers; what was asked for is safe to be asked for again
├── RequestInvalid      the request could be none: nothing was done (a ValueError as well)
├── Refused             the node does not grant it
│   ├── UnknownTask     no task has this name, or this id
│   ├── UnknownGroup    no group of the node has this id
│   └── UniqueKeyTaken  an unfinished task has the unique key
├── StoreAway           the store alone could have answered, and is out of reach
├── NotEnded            the task is still open after the time that was to be waited (a TimeoutError as well)
└── NoResult            the task is over, without a result; `outcome` says more
    ├── TaskFailed
    ├── TaskWasStopped  by somebody's request, while it ran
    ├── TaskCancelled   by somebody's request, before it ran
    └── TaskLost        nobody can know how it ended
"""

from typing import Any

from chong.worker.outcome import Outcome


class ClientError(Exception):
    """Base of what a client raises."""


class NodeUnreachable(ClientError):  # noqa: N818 - like those below it reads as what happened
    """No supervisor answers at the control socket, or not in time."""


class RequestInvalid(ClientError, ValueError):  # noqa: N818
    """The request is wrong as it stands; says what was expected and what was got."""


class Refused(ClientError):  # noqa: N818
    """The node was asked for something that it does not grant."""


class UnknownTask(Refused):
    """The node knows no task of this name, or nobody a task with this id."""


class UnknownGroup(Refused):
    """The node knows no group with this id."""


class UniqueKeyTaken(Refused):
    """An unfinished task already holds the unique key."""


class StoreAway(ClientError):  # noqa: N818
    """The node's store is out of reach."""


class NotEnded(ClientError, TimeoutError):  # noqa: N818
    """The task goes on, or waits still."""


class NoResult(ClientError):  # noqa: N818
    """The task is over and has returned nothing."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(_told(outcome))
        self.outcome = outcome

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.outcome,)


class TaskFailed(NoResult):
    """Its last attempt failed; `outcome.failure` says why."""


class TaskWasStopped(NoResult):
    """It ended because somebody had asked for that. (`chong.worker.TaskStopped` is what is raised in the task.)"""


class TaskCancelled(NoResult):
    """Somebody asked for its stop before it began, or between two attempts."""


class TaskLost(NoResult):
    """Whoever ran it is dead, and left no word of its end."""


_BY_STATUS: dict[str, type[NoResult]] = {
    "failed": TaskFailed,
    "stopped": TaskWasStopped,
    "cancelled": TaskCancelled,
    "lost": TaskLost,
}
_BY_CODE: dict[str, type[ClientError]] = {
    "configuration": RequestInvalid,
    "unavailable": StoreAway,
}
_BY_KIND: dict[str, type[ClientError]] = {
    "unknown_task": UnknownTask,
    "unknown_group": UnknownGroup,
    "unique_key_taken": UniqueKeyTaken,
}


def no_result(outcome: Outcome) -> NoResult:
    """The error for a task that is over and has not succeeded."""
    return _BY_STATUS.get(outcome.status, NoResult)(outcome)


def refusal(content: dict[str, Any]) -> ClientError:
    """The error for what a node answers to a request that it does not carry out."""
    kind = _BY_KIND.get(str(content.get("kind"))) or _BY_CODE.get(str(content["code"])) or Refused
    return kind(str(content["error"]))


def _told(outcome: Outcome) -> str:
    told = f"task {outcome.id} ({outcome.name}) {outcome.status}"
    if outcome.status in {"stopped", "cancelled"} and outcome.stopped_by:
        why = f": {outcome.stop_reason}" if outcome.stop_reason else ""
        return f"{told}, asked by {outcome.stopped_by}{why}"
    failure = outcome.failure
    return told if failure is None else f"{told}: {failure.kind} {failure.cause}: {failure.message}"
