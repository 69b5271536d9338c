"""What clients hand to the node: accepted, kept on disk, stored, and answered in that order."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

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


GroupSettled = Callable[[ChongError | None], None]
"""Told what became of a group: None when it was accepted."""
New = tuple[TaskState, e.SaveState]


class Member(NamedTuple):
    """A submission of a group. into: the parameter that is handed to it later."""

    submission: Submission
    into: str | None


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
        self._early: list[tuple[Callable[[], None], Callable[[ChongError], None]]] = []
        self._keeping: dict[str, list[SubmissionSettled]] = {}
        """On their way to the disk."""
        self._keeping_groups: dict[str, list[GroupSettled]] = {}
        self._keeping_members = 0
        self._unanswered: dict[str, list[SubmissionSettled]] = {}
        """On the disk, and on their way to the store."""

    @property
    def room(self) -> int:
        """How many more tasks may wait."""
        return QUEUE_LIMIT - len(self._queue) - self._tasks.barred

    def begin(self, unsaved: list[Submission], then: Callable[[], None]) -> None:
        """Take submissions; first what a former term had accepted and never stored, and `then` what follows that."""
        self.is_accepting = True
        before: list[Callable[[], None]] = [*(partial(self._readmit, submission) for submission in unsaved), then]
        self._early = [(each, _unheard) for each in before] + self._early
        self.admit_early()

    def drain(self) -> None:
        """Take nothing more."""
        self.is_ending = True
        early, self._early = self._early, []
        for _, settled in early:
            settled(Refused("the node is going down and takes no new work"))

    def submit_request(self, request: dict[str, Any], settled: RequestSettled) -> None:
        """A submission that came over the control socket."""
        submission = from_json(request)
        if submission.group_id is not None:
            raise ConfigurationError("group_id: expected none; a group is submitted as a whole")
        self.submit(submission, partial(_settle_request, settled))

    def submit(self, submission: Submission, settled: SubmissionSettled) -> None:
        """Accept a submission; `settled` hears so when it is on the disk, with a unique key when it is stored, too."""
        self.when_accepting(partial(self._submit, submission, settled), settled)

    def when_accepting(self, do: Callable[[], None], refused: Callable[[ChongError], None]) -> None:
        """Now, or as soon as the node takes work; `refused` is told when it will not."""
        if self.catalogue is not None and self.is_accepting:
            do()
        elif self.is_ending or len(self._early) >= QUEUE_LIMIT:
            refused(Refused("the node does not take work now"))
        else:
            self._early.append((do, refused))

    def _submit(self, submission: Submission, settled: SubmissionSettled) -> None:
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

    def submit_group(
        self,
        group_id: str,
        content: str,
        members: list[Member],
        *,
        on_kept: Callable[[], Callable[[], None]],
        settled: GroupSettled,
    ) -> None:
        """Accept all of them or none; `content` is kept with them.

        on_kept: called when they are on the disk; what it returns is, when they are in the node's hands. settled: told
        as for a submission; who asks again while the first request is under way hears the same.
        """
        if group_id in self._keeping_groups:
            self._keeping_groups[group_id].append(settled)
            return
        try:
            admitted = self._admit_all(members)
        except ChongError as error:
            settled(error)
            return
        self._keeping_groups[group_id] = [settled]
        self._keeping_members += len(members)
        submissions = [submission for submission, _ in admitted]
        new = [each for _, each in admitted]
        self._spool.keep_group(group_id, content, submissions, partial(self._group_kept, group_id, new, on_kept))

    def _admit_all(self, members: list[Member]) -> list[tuple[Submission, New]]:
        self._check_room(len(members))
        now = datetime.now(UTC)
        admitted = []
        for number, (given, into) in enumerate(members):
            try:
                definition = self._definition(given.name)
                submission = definition.read(given, later=into)
                admitted.append((submission, self.admission.admit(submission, definition, now)))
            except Refused as refusal:
                raise Refused(f"call {number + 1}: {refusal}") from refusal
        return admitted

    def _group_kept(
        self, group_id: str, new: list[New], on_kept: Callable[[], Callable[[], None]], error: SpoolError | None
    ) -> None:
        heard = self._keeping_groups.pop(group_id)
        self._keeping_members -= len(new)
        if error is not None:
            for state, _ in new:
                self._spool.forget(state.task.id)
            for settled in heard:
                settled(Refused(f"the group cannot be kept on disk: {error}"))
            return
        begin = on_kept()
        for state, save in new:
            self._tasks.add(state, [save])
        begin()
        # They go to the store in their order: whoever hears of the last one finds them all.
        self._answer_when_stored(new[-1][0].task.id, [partial(_settle_group, settled) for settled in heard])

    def _accept(self, submission: Submission, settled: SubmissionSettled) -> None:
        if self._was_accepted(submission.id):
            self.courier.do(partial(self._answer_existing, submission.id, settled))
            return
        self._check_room(1)
        if submission.due_at is not None and self._tasks.later >= QUEUE_LIMIT:
            raise Refused(f"queue: expected fewer than {QUEUE_LIMIT} tasks that wait for their time on this node")
        definition = self._definition(submission.name)
        submission = definition.read(submission)
        state, save = self.admission.admit(submission, definition, datetime.now(UTC))
        self._keeping[submission.id] = [settled]
        self._spool.keep(submission, partial(self._kept, state, save))

    def _check_room(self, count: int) -> None:
        """Refused when the node cannot take so many more."""
        if self.is_ending:
            raise Refused("the node is going down and takes no new work")
        room = self.room - len(self._keeping) - self._keeping_members
        if room < count:
            waiting = QUEUE_LIMIT - room
            got = "" if count == 1 else f", got {count} more beside {waiting}"
            raise Refused(f"queue: expected fewer than {QUEUE_LIMIT} waiting tasks on this node{got}")
        self._outbox.make_room()

    def _definition(self, name: str) -> Task:
        assert self.catalogue is not None, "submissions wait for the catalogue"
        return self.catalogue.find(name)

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
        self._answer_when_stored(task.id, settled)

    def _answer_when_stored(self, task_id: str, settled: list[SubmissionSettled]) -> None:
        """Whoever asks for the task next finds it in the store, unless that keeps everybody waiting."""
        self._unanswered[task_id] = settled
        wait = 0.0 if self.outage.is_on else STORE_SECONDS
        self._loop.later(wait, partial(self._answer_without_store, task_id))

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


def _settle_group(settled: GroupSettled, outcome: TaskSnapshot | ChongError) -> None:
    settled(outcome if isinstance(outcome, ChongError) else None)


def _settle_request(settled: RequestSettled, outcome: TaskSnapshot | ChongError) -> None:
    settled(outcome if isinstance(outcome, ChongError) else {"task": as_json(outcome)})
