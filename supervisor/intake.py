"""What clients hand to the node: accepted, kept on disk, stored, and answered in that order."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConcurrencyConflict, ConfigurationError, Refused, StoreError
from chong.store.model import TaskSnapshot
from chong.store.view import as_json
from chong.supervisor import events as e
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue, Task
from chong.supervisor.courier import Courier
from chong.supervisor.loop import Loop
from chong.supervisor.operations import RequestSettled
from chong.supervisor.outage import Outage
from chong.supervisor.outbox import Outbox
from chong.supervisor.queue import TurnQueue
from chong.supervisor.spool import Spool
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.submission import Submission, from_json
from chong.supervisor.task_state import TaskState, options_for
from chong.supervisor.tasks import Tasks
from chong.worker.options import Options

QUEUE_LIMIT = 10_000
STORE_SECONDS = 0.1
"""For so long the answer to a submission waits for the store, though the task is accepted without it."""

SubmissionSettled = Callable[[TaskSnapshot | ChongError], None]
"""Told what became of a submission."""


class Intake:
    """Lives in the loop's thread. Submissions wait until the store was met and the catalogue is known."""

    def __init__(
        self,
        *,
        loop: Loop,
        store: TaskStore,
        admission: Admission,
        spool: Spool,
        outbox: Outbox,
        queue: TurnQueue,
        tasks: Tasks,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.admission = admission
        self.catalogue: Catalogue | None = None
        self.courier: Courier
        self.outage: Outage
        self.is_accepting = False
        """Set once the store was met and what was found is taken over."""
        self.is_ending = False
        self._loop = loop
        self._store = store
        self._spool = spool
        self._outbox = outbox
        self._queue = queue
        self._tasks = tasks
        tasks.on_due = self.enqueue
        self._log = log
        self._early: list[tuple[Callable[[], None], SubmissionSettled]] = []
        self._keeping: dict[str, list[SubmissionSettled]] = {}
        """On their way to the disk."""
        self._unanswered: dict[str, list[SubmissionSettled]] = {}
        """On the disk, and on their way to the store."""

    @property
    def room(self) -> int:
        """How many more tasks may wait."""
        return QUEUE_LIMIT - len(self._queue)

    def begin(self, unsaved: list[Submission]) -> None:
        """Take submissions; first what a former term had accepted and never stored."""
        self.is_accepting = True
        self._early = [(partial(self._readmit, submission), _unheard) for submission in unsaved] + self._early
        self.admit_early()

    def drain(self) -> None:
        """Take nothing more."""
        self.is_ending = True
        early, self._early = self._early, []
        for _, settled in early:
            settled(Refused("the node is going down and takes no new work"))

    def submit_request(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """A submission that came over the control socket."""
        self.submit(from_json(request), partial(_settle_request, settled))

    def submit(self, submission: Submission, settled: SubmissionSettled) -> None:
        """Accept a submission; `settled` hears so when it is on the disk, with a unique key when it is stored, too."""
        if self.catalogue is None or not self.is_accepting:
            if self.is_ending or len(self._early) >= QUEUE_LIMIT:
                settled(Refused("the node does not take work now"))
            else:
                self._early.append((partial(self.submit, submission, settled), settled))
            return
        known = self._tasks.get(submission.id)
        if known is not None:
            self._settle_repeated(known, settled)
        elif submission.id in self._keeping:
            self._keeping[submission.id].append(settled)
        else:
            try:
                self._accept(submission, settled)
            except ChongError as error:
                settled(error)

    def admit_early(self) -> None:
        """Submissions that came before the node could take them."""
        if self.catalogue is None or not self.is_accepting:
            return
        early, self._early = self._early, []
        for submit, _ in early:
            submit()

    def enqueue(self, task_id: str) -> None:
        """Let a waiting task compete for a slot, once its definition, and so its limit, is known."""
        state = self._tasks.get(task_id)
        if self.catalogue is None or state is None or not state.may_start:
            return
        definition = self.catalogue.tasks.get(state.task.name)
        if definition is not None:
            self._tasks.put(replace(state, options=options_for(state.task, definition.options)))
        self._tasks.enqueue(task_id)

    def stored(self, task: TaskSnapshot) -> None:
        """The store has the task, or what is on the disk need not wait for it: whoever submitted it hears so."""
        for settled in self._unanswered.pop(task.id, []):
            settled(task)

    def refused(self, state: TaskState, error: Exception) -> None:
        """The store did not take the task's first save: then it is none."""
        task = state.task
        settled = self._unanswered.pop(task.id, [])
        self._tasks.feed(task.id, e.Desynced(str(error)), f"{task.id}.refused")
        self._spool.forget(task.id)
        if not settled:
            self._log.error("accepted_work_refused", task=task.id, name=task.name, error=str(error))
        for each in settled:
            if isinstance(error, ConcurrencyConflict):
                # The same submission came again, so long after its task had ended here that nothing of it is left.
                self.courier.do(partial(self._answer_existing, task.id, each))
            else:
                each(error if isinstance(error, ChongError) else Refused(str(error)))

    def store_away(self) -> None:
        """What waits for the store is on this node's disk, which is what acceptance promises."""
        for task_id in list(self._unanswered):
            self._answer_without_store(task_id)

    def _answer_without_store(self, task_id: str) -> None:
        """A unique key is the store's to judge."""
        state = self._tasks.get(task_id)
        if state is not None and state.task.unique_key is None:
            self.stored(state.task)

    def _settle_repeated(self, known: TaskState, settled: SubmissionSettled) -> None:
        """The same submission again: it hears what the first one hears."""
        waiting = self._unanswered.get(known.task.id)
        if waiting is None:
            settled(known.task)
        else:
            waiting.append(settled)

    def _accept(self, submission: Submission, settled: SubmissionSettled) -> None:
        if self.is_ending:
            raise Refused("the node is going down and takes no new work")
        if self._was_accepted(submission.id):
            self.courier.do(partial(self._answer_existing, submission.id, settled))
            return
        if len(self._queue) + len(self._keeping) >= QUEUE_LIMIT:
            raise Refused(f"queue: expected fewer than {QUEUE_LIMIT} waiting tasks on this node")
        if submission.due_at is not None and self._tasks.later >= QUEUE_LIMIT:
            raise Refused(f"queue: expected fewer than {QUEUE_LIMIT} tasks that wait for their time on this node")
        self._outbox.make_room()
        if self.catalogue is None:
            raise AssertionError("submissions wait for the catalogue")
        definition = self.catalogue.find(submission.name)
        submission = definition.read(submission)
        state, save = self.admission.admit(submission, definition, datetime.now(UTC))
        self._keeping[submission.id] = [settled]
        self._spool.keep(submission, partial(self._kept, state, save))

    def _was_accepted(self, task_id: str) -> bool:
        """Whether a submission of this id has come before, and its task is over."""
        try:
            return self._spool.submission(task_id) is not None
        except (ValueError, ConfigurationError):
            return True
        except SpoolError as error:
            raise Refused(f"the submission cannot be kept on disk: {error}") from error

    def _kept(self, state: TaskState, save: e.SaveState, error: SpoolError | None) -> None:
        task = state.task
        settled = self._keeping.pop(task.id)
        if error is not None:
            self._spool.forget(task.id)
            for each in settled:
                each(Refused(f"the submission cannot be kept on disk: {error}"))
            return
        self._tasks.add(state, [save])
        self.enqueue(task.id)
        self._unanswered[task.id] = settled
        # Whoever asks for the task next finds it in the store, unless that keeps everybody waiting.
        wait = 0.0 if self.outage.is_on else STORE_SECONDS
        self._loop.later(wait, partial(self._answer_without_store, task.id))

    def _readmit(self, submission: Submission) -> None:
        """What was accepted stays accepted, whatever this node owns and defines now."""
        if submission.id in self._tasks:
            return
        assert self.catalogue is not None, "what a former term has left waits for the catalogue, too"
        definition = self.catalogue.tasks.get(submission.name) or Task(submission.name, "", "", Options())
        state, save = self.admission.readmit(submission, definition, datetime.now(UTC))
        self._tasks.add(state, [save])
        self.enqueue(submission.id)

    def _answer_existing(self, task_id: str, settled: SubmissionSettled) -> None:
        """In the store's thread: what became of a task that is over."""
        try:
            found: TaskSnapshot | ChongError = self._store.get(task_id) or Refused(
                f"task {task_id} was accepted before, and the store does not know it any more"
            )
        except (StoreError, Refused) as unknown:
            found = unknown
        self._loop.call(partial(settled, found))


def _unheard(_: TaskSnapshot | ChongError) -> None:
    """Nobody waits for what a former term had accepted; the next one takes it up, should this one be ending."""


def _settle_request(settled: RequestSettled, outcome: TaskSnapshot | ChongError) -> None:
    settled(outcome if isinstance(outcome, ChongError) else {"task": as_json(outcome)})
