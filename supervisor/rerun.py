"""A task that is over once more: as a new one, with the parameters that the node has kept."""

from dataclasses import replace
from functools import partial
from typing import Any

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, Refused
from chong.store.ids import SHOWN
from chong.store.model import TaskSnapshot
from chong.store.view import as_json
from chong.supervisor.intake import Intake
from chong.supervisor.loop import Loop
from chong.supervisor.operations import RequestSettled
from chong.supervisor.spool import Spool
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.submission import Submission, check_id
from chong.supervisor.tasks import Tasks


class Reruns:
    """Lives in the loop's thread. The new task's id is made by whoever asks, as with a submission."""

    def __init__(self, *, loop: Loop, store: TaskStore, spool: Spool, tasks: Tasks, intake: Intake) -> None:
        self._loop = loop
        self._store = store
        self._spool = spool
        self._tasks = tasks
        self._intake = intake

    def request(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """A rerun that was asked for over the control socket."""
        old, again = _ids_of(request)
        if not self._intake.is_accepting:
            raise Refused("the node does not take work now")
        if (state := self._tasks.get(old)) is not None:
            raise _not_over(state.task)
        submission = replace(self._kept(old), id=again, trigger=f"rerun {old}", due_at=None, group_id=None)
        if self._spool.is_open(old):
            self._intake.courier.do(partial(self._look, old, submission, settled))
        else:
            self._submit(old, submission, settled)

    def _kept(self, task_id: str) -> Submission:
        try:
            found = self._spool.submission(task_id)
        except (SpoolError, ValueError, ConfigurationError) as error:
            raise Refused(f"task {task_id}: its submission cannot be read: {error}") from error
        if found is None:
            node = self._intake.admission.node
            raise Refused(f"task {task_id}: its parameters are not on node {node}, or were let go of since its end")
        return found

    def _look(self, old: str, submission: Submission, settled: RequestSettled) -> None:
        """In the store's thread: it is not known to be over, and not in our hands either; somebody may run it."""
        try:
            task = self._store.get(old)
            if task is not None and not task.status.is_final:
                raise _not_over(task)
        except ChongError as error:
            self._loop.call(partial(settled, error))
        else:
            self._loop.call(partial(self._submit, old, submission, settled))

    def _submit(self, old: str, submission: Submission, settled: RequestSettled) -> None:
        self._intake.submit(submission, partial(self._settle, old, settled))

    def _settle(self, old: str, settled: RequestSettled, outcome: TaskSnapshot | ChongError) -> None:
        if isinstance(outcome, ChongError):
            settled(outcome)
        else:
            self._spool.drop(old, attempt=0)  # what the store has forgotten is nobody's trouble any more
            settled({"task": as_json(outcome)})


def _not_over(task: TaskSnapshot) -> Refused:
    return Refused(f"task {task.id} ({task.name}): expected one that is over, it is {task.status}")


def _ids_of(request: dict[str, Any]) -> tuple[str, str]:
    if set(request) != {"id", "as"}:
        raise ConfigurationError(f"rerun: expected id and as, got {', '.join(sorted(map(str, request)))[:SHOWN]}")
    for name in ("id", "as"):
        check_id(name, request[name])
    return request["id"], request["as"]
