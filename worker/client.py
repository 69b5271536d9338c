"""For programs on a node's machine: submit tasks, wait for their ends, stop them, over the node's own socket.

Nothing of the store is needed, and parameters never leave the machine.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from chong.worker import client_errors as errors
from chong.worker.client_errors import (
    ClientError,
    NodeUnreachable,
    NoResult,
    NotEnded,
    Refused,
    RequestInvalid,
    StoreAway,
    TaskCancelled,
    TaskFailed,
    TaskLost,
    TaskWasStopped,
    UniqueKeyTaken,
    UnknownGroup,
    UnknownTask,
)
from chong.worker.exchange import exchange
from chong.worker.group_outcome import GroupOutcome
from chong.worker.issuer import default_issuer
from chong.worker.outcome import Failure, Outcome
from chong.worker.plan import Plan
from chong.worker.talk import ANSWER_SECONDS, Came, Conversation, Step, Talk, Wish
from chong.worker.whereabouts import control_socket

if TYPE_CHECKING:
    from chong.worker.async_client import AsyncClient

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Failure",
    "GroupOutcome",
    "NoResult",
    "NodeUnreachable",
    "NotEnded",
    "Outcome",
    "Refused",
    "RequestInvalid",
    "StoreAway",
    "TaskCancelled",
    "TaskFailed",
    "TaskLost",
    "TaskWasStopped",
    "UniqueKeyTaken",
    "UnknownGroup",
    "UnknownTask",
    "Wish",
]

T = TypeVar("T")


def __getattr__(name: str) -> object:
    if name == "AsyncClient":  # on demand: asyncio costs whoever does not use it as much as all the rest
        from chong.worker.async_client import AsyncClient  # noqa: PLC0415

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def talk_with(
    runtime_dir: str | Path | None, state_dir: str | Path | None, node: str | None, issued_by: str | None
) -> Talk:
    """As the clients take it; RequestInvalid when nobody can know which node is meant."""
    try:
        path = control_socket(
            runtime_dir=None if runtime_dir is None else Path(runtime_dir),
            state_dir=None if state_dir is None else Path(state_dir),
            node=node,
        )
    except ValueError as error:
        raise errors.RequestInvalid(str(error)) from None
    return Talk(path, issued_by or default_issuer())


class Client:
    """Each call has a connection of its own, so any thread may call, and nothing has to be closed.

    runtime_dir, state_dir, node: which node; without them the one that `chong` would ask, by the CHONG_ variables and
    chong.toml. issued_by: who is on record for a stop, USER@HOST if nobody is named.

    All raise ClientError: NodeUnreachable at once when nobody listens. A node that goes away in the middle of a call is
    waited for until the time is over, half a minute at most, and asked again; that does nothing twice.
    """

    def __init__(
        self,
        *,
        runtime_dir: str | Path | None = None,
        state_dir: str | Path | None = None,
        node: str | None = None,
        issued_by: str | None = None,
    ) -> None:
        self._talk = talk_with(runtime_dir, state_dir, node, issued_by)

    def submit(self, name: str, *, timeout: float = ANSWER_SECONDS, **wish: Unpack[Wish]) -> str:
        """Hand a task to the node, which keeps it from here on; returns its id. `Wish` says what may be said of it."""
        return self._carry_out(self._talk.submit(name, timeout, **wish))

    def get(self, task_id: str, *, timeout: float = ANSWER_SECONDS) -> Outcome:
        """How the task stands now."""
        return self._carry_out(self._talk.get(task_id, timeout))

    def wait(self, task_id: str, *, timeout: float | None = None) -> Outcome:
        """Wait until the task is over and stored as such; NotEnded when it is not within `timeout` seconds."""
        return self._carry_out(self._talk.wait(task_id, timeout))

    def result(self, task_id: str, *, timeout: float | None = None) -> Any:
        """What the task returned, waited for as by `wait`; NoResult says by its class how it ended otherwise."""
        return self._carry_out(self._talk.result(task_id, timeout))

    def stop(
        self, task_id: str, *, reason: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> Outcome:
        """Ask for a stop; returns how the task stands then, with `wait` how it ended.

        A task that is over already stays as it is, and is returned.
        """
        return self._carry_out(self._talk.stop(task_id, reason, timeout, wait=wait))

    def submit_group(
        self,
        plan: Plan,
        *,
        group_id: str | None = None,
        timeout: float = ANSWER_SECONDS,
    ) -> str:
        """Hand a group or a pipeline to the node, all of it or nothing; returns the group's id.

        group_id: an id of your own, to be able to submit it again after an error without running anything twice.
        """
        return self._carry_out(self._talk.submit_group(plan, timeout, group_id))

    def get_group(self, group_id: str, *, timeout: float = ANSWER_SECONDS) -> GroupOutcome:
        """How the group and its members stand now."""
        return self._carry_out(self._talk.get_group(group_id, timeout))

    def wait_group(self, group_id: str, *, timeout: float | None = None) -> GroupOutcome:
        """Wait until all its members are over; NotEnded when they are not within `timeout` seconds."""
        return self._carry_out(self._talk.wait_group(group_id, timeout))

    def stop_group(
        self,
        group_id: str,
        *,
        reason: str | None = None,
        timeout: float = ANSWER_SECONDS,
    ) -> GroupOutcome:
        """Ask all its members to stop; what waits is cancelled. Returns how they stand then."""
        return self._carry_out(self._talk.stop_group(group_id, reason, timeout))

    def _carry_out(self, conversation: Conversation[T]) -> T:
        came: Came = None
        try:
            while True:
                came = _taken(self._talk.path, conversation.send(came))
        except StopIteration as end:
            result: T = end.value
            return result


def _taken(path: Path, step: Step) -> Came:
    if step.line is None:
        time.sleep(step.seconds or 0)
        return None
    try:
        return exchange(path, step.line, step.seconds)
    except OSError as error:
        return error
