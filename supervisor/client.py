"""What anybody may do to tasks from anywhere: look at them, and ask their node for something.

A client only reads and leaves requests; it never polls, claims, registers or judges.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from chong.store.contract import TaskStore
from chong.store.errors import Refused, UnknownId
from chong.store.ids import new_id
from chong.store.model import Action, Command, TaskSnapshot
from chong.store.query import TaskQuery
from chong.store.states import WAITING, Status
from chong.supervisor.submission import REASON_LIMIT, check_text
from chong.worker.options import NAME_LIMIT


class Client:
    """`issued_by` signs every request; `owned_buckets` limits what `query` shows, and nothing else."""

    def __init__(self, store: TaskStore, *, issued_by: str, owned_buckets: Iterable[int] | None = None) -> None:
        check_text("issued by", issued_by, NAME_LIMIT)
        self._store = store
        self._issued_by = issued_by
        self._owned_buckets = None if owned_buckets is None else frozenset(owned_buckets)

    def get(self, task_id: str) -> TaskSnapshot | None:
        return self._store.get(task_id)

    def query(self, query: TaskQuery) -> list[TaskSnapshot]:
        if self._owned_buckets is None:
            return self._store.query(query)
        buckets = self._owned_buckets if query.buckets is None else query.buckets & self._owned_buckets
        return self._store.query(replace(query, buckets=buckets)) if buckets else []

    def stop(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a stop; Refused when the task is unknown or final."""
        return self._ask(Action.STOP, task_id, reason)

    def pause(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a pause; Refused when no attempt is under way, or a stop is."""
        return self._ask(Action.PAUSE, task_id, reason)

    def freeze(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a pause at once, whatever the task does: its processes are stopped. Refused like a pause."""
        return self._ask(Action.FREEZE, task_id, reason)

    def resume(self, task_id: str, reason: str | None = None) -> Command:
        """Undo a pause, also one that was asked for but has not come about; Refused like a pause."""
        return self._ask(Action.RESUME, task_id, reason)

    def _ask(self, action: Action, task_id: str, reason: str | None) -> Command:
        if reason is not None:
            check_text("reason", reason, REASON_LIMIT)
        task = self._store.get(task_id)
        if task is None:
            raise UnknownId(task_id)
        refusal = refusal_of(action, task)
        if refusal is not None:
            raise Refused(refusal)
        command = Command(
            id=new_id(),
            task_id=task_id,
            action=action,
            issued_by=self._issued_by,
            issued_at=datetime.now(UTC),
            reason=reason,
        )
        self._store.submit_command(command)
        return command


def refusal_of(action: Action, task: TaskSnapshot) -> str | None:
    """Why `task` cannot be asked for `action` as it stands; None when it can. Its node has the last word."""
    who = f"task {task.id} ({task.name})"
    if task.status.is_final:
        return f"{who} has ended: it is {task.status}, nothing is left to {action}"
    if action is Action.STOP:
        return None
    if task.status in WAITING:
        return f"{who} is {task.status}: only an attempt under way can be asked to {action}"
    if task.status is Status.STOPPING:
        return f"{who} is stopping, which is not undone by a {action}"
    return None
