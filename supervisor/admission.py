"""May this node take a submission, and what does the task look like at its first instant?"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from chong.store.buckets import BucketPolicy, format_buckets
from chong.store.errors import Refused
from chong.store.ids import new_id
from chong.store.model import TaskSnapshot, Transition
from chong.store.stamp import utc_text
from chong.store.states import Status
from chong.supervisor.catalogue import Task
from chong.supervisor.events import SaveState
from chong.supervisor.submission import Submission
from chong.supervisor.task_state import TaskState, options_for

LONGEST_WAIT = timedelta(days=3660)
"""So far ahead a task may be submitted: what lies further is mistyped."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The node's ownership. `epoch` numbers this term's frames; `owned` is None without limits."""

    node: str
    term: str
    epoch: int
    policy: BucketPolicy
    owned: frozenset[int] | None

    @property
    def owns_all_buckets(self) -> bool:
        return self.policy.covers_all(self.owned)

    def owns_bucket(self, bucket: int) -> bool:
        return self.owned is None or bucket in self.owned

    def bucket_for(self, key: str | None) -> int | None:
        """The bucket of a key; Refused when it is not ours, or is missing where buckets are parted."""
        if key is None:
            if not self.owns_all_buckets:
                raise Refused(f"key: node {self.node!r} owns buckets {self._shown()} only and expects a key, got none")
            return None
        bucket = self.policy.bucket_of(key)
        if not self.owns_bucket(bucket):
            raise Refused(
                f"key {key[:60]!r} falls into bucket {bucket}: expected one of node {self.node!r}, {self._shown()}"
            )
        return bucket

    def admit(self, submission: Submission, task: Task, now: datetime) -> tuple[TaskState, SaveState]:
        """The new task, queued. Its bucket is recorded now; only `chong rebucket` computes it anew."""
        if submission.due_at is not None and submission.due_at - now > LONGEST_WAIT:
            due = utc_text(submission.due_at)
            raise Refused(f"due_at: expected at most {LONGEST_WAIT.days} days from now, got {due}")
        return self._queued(submission, task, now, self.bucket_for(submission.key))

    def readmit(self, submission: Submission, task: Task, now: datetime) -> tuple[TaskState, SaveState]:
        """As `admit`, of what this node has accepted before, whichever buckets it owned then."""
        bucket = None if submission.key is None else self.policy.bucket_of(submission.key)
        return self._queued(submission, task, now, bucket)

    def _queued(
        self, submission: Submission, task: Task, now: datetime, bucket: int | None
    ) -> tuple[TaskState, SaveState]:
        """What is due already has no due time: it starts at once."""
        due = None if submission.due_at is None or submission.due_at <= now else submission.due_at
        snapshot = TaskSnapshot(
            id=submission.id,
            name=submission.name,
            status=Status.QUEUED,
            version=1,
            node=self.node,
            created_at=now,
            status_changed_at=now,
            bucket=bucket,
            bucket_key=submission.key,
            max_attempts=(task.options.retries if submission.retries is None else submission.retries) + 1,
            priority=task.options.priority if submission.priority is None else submission.priority,
            run_timeout=submission.run_timeout,
            due_at=due,
            tags=frozenset(task.options.tags),
            trigger=submission.trigger,
            unique_key=submission.unique_key,
            group_id=submission.group_id,
            lease_owner=self.term,
        )
        accepted = Transition(
            task_id=submission.id,
            version=1,
            source=None,
            target=Status.QUEUED,
            at=now,
            actor=self.term,
            # Not named by the task alone: the same submission sent again after it ended must be a conflict.
            event_id=f"{submission.id}.accepted.{new_id()}",
            reason=submission.trigger if due is None else f"{submission.trigger}, due {utc_text(due)}",
        )
        state = self.state_of(snapshot, task)
        return state, SaveState(snapshot, (accepted,))

    def state_of(self, snapshot: TaskSnapshot, task: Task) -> TaskState:
        return TaskState(
            task=replace(snapshot, lease_owner=self.term),
            options=options_for(snapshot, task.options),
            term=self.term,
            epoch=self.epoch,
        )

    def _shown(self) -> str:
        return format_buckets(self.owned or ())
