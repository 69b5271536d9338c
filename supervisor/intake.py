"""What clients hand to the node: accepted, kept on disk, stored, and answered in that order."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConcurrencyConflict, Refused, StoreError
from chong.store.model import TaskSnapshot
from chong.store.view import as_json
from chong.supervisor import events as e
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.courier import Courier
from chong.supervisor.loop import Loop
from chong.supervisor.operations import RequestSettled
from chong.supervisor.outage import Outage
from chong.supervisor.outbox import Outbox
from chong.supervisor.queue import TurnQueue
from chong.supervisor.spool import Spool
from chong.supervisor.submission import Submission, from_json
from chong.supervisor.task_state import TaskState
from chong.supervisor.tasks import Tasks

QUEUE_LIMIT = 10_000

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
        self._early: list[tuple[Submission, SubmissionSettled]] = []
        self._unanswered: dict[str, list[SubmissionSettled]] = {}

    @property
    def room(self) -> int:
        """How many more tasks may wait."""
        return QUEUE_LIMIT - len(self._queue)

    def begin(self, unsaved: list[Submission]) -> None:
        """Take submissions; first what a former term had accepted and never stored."""
        self.is_accepting = True
        self._early = [(submission, partial(self._readmitted, submission)) for submission in unsaved] + self._early
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
        """Accept a submission; `settled` hears when it is stored, or on this node's disk with the store away."""
        if self.catalogue is None or not self.is_accepting:
            if self.is_ending or len(self._early) >= QUEUE_LIMIT:
                settled(Refused("the node does not take work now"))
            else:
                self._early.append((submission, settled))
            return
        known = self._tasks.get(submission.id)
        if known is not None:
            self._settle_repeated(known, settled)
            return
        try:
            self._accept(submission, settled)
        except ChongError as error:
            settled(error)
        except OSError as error:
            settled(Refused(f"the submission cannot be kept on disk: {error}"))

    def admit_early(self) -> None:
        """Submissions that came before the node could take them."""
        if self.catalogue is None or not self.is_accepting:
            return
        early, self._early = self._early, []
        for submission, settled in early:
            self.submit(submission, settled)

    def enqueue(self, task_id: str) -> None:
        """Let a waiting task compete for a slot, once its definition, and so its limit, is known."""
        state = self._tasks.get(task_id)
        if self.catalogue is None or state is None or not state.may_start:
            return
        definition = self.catalogue.tasks.get(state.task.name)
        if definition is not None:
            self._tasks.put(replace(state, options=definition.options))
        self._tasks.enqueue(task_id)

    def stored(self, task_id: str) -> None:
        """The store has the task: whoever submitted it hears so."""
        state = self._tasks.get(task_id)
        if state is None:
            return
        for settled in self._unanswered.pop(task_id, []):
            settled(state.task)

    def refused(self, state: TaskState, error: Exception) -> None:
        """The store did not take the task's first save, so the submission is refused."""
        settled = self._unanswered.pop(state.task.id, [])
        self._tasks.feed(state.task.id, e.Desynced(str(error)), f"{state.task.id}.refused")
        if isinstance(error, ConcurrencyConflict):
            # The same submission came again after its task had ended here: answer with what it came to.
            self.courier.do(partial(self._answer_existing, state.task.id, settled, error))
        else:
            for each in settled:
                each(error if isinstance(error, ChongError) else Refused(str(error)))

    def store_away(self) -> None:
        """What waits for the store is on this node's disk, which is what acceptance promises."""
        for task_id in list(self._unanswered):
            state = self._tasks.get(task_id)
            if state is not None and state.task.unique_key is None:
                self.stored(task_id)

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
        if len(self._queue) >= QUEUE_LIMIT:
            raise Refused(f"queue: expected fewer than {QUEUE_LIMIT} waiting tasks on this node")
        self._outbox.make_room()
        if self.catalogue is None:
            raise AssertionError("submissions wait for the catalogue")
        definition = self.catalogue.find(submission.name)
        definition.check_names(submission.params)
        state, save = self.admission.admit(submission, definition, datetime.now(UTC))
        self._spool.keep(submission)
        self._tasks.add(state, [save])
        self.enqueue(state.task.id)
        if self.outage.is_on and submission.unique_key is None:
            settled(state.task)
        else:
            self._unanswered[submission.id] = [settled]

    def _readmitted(self, submission: Submission, outcome: TaskSnapshot | ChongError) -> None:
        if isinstance(outcome, ChongError):
            self._log.error("accepted_work_refused", task=submission.id, name=submission.name, error=str(outcome))

    def _answer_existing(self, task_id: str, settled: list[SubmissionSettled], error: ConcurrencyConflict) -> None:
        try:
            found: TaskSnapshot | ChongError = self._store.get(task_id) or error
        except (StoreError, Refused) as unknown:
            found = unknown
        for each in settled:
            self._loop.call(partial(each, found))


def _settle_request(settled: RequestSettled, outcome: TaskSnapshot | ChongError) -> None:
    settled(outcome if isinstance(outcome, ChongError) else {"task": as_json(outcome)})
