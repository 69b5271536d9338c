"""What the store keeps: tasks as frozen snapshots, their audit trail, leases, commands, nodes.

All times are aware datetimes in UTC. All values are immutable: a change is a new snapshot with a higher version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from chong.store.stamp import utc_text
from chong.store.states import Status


class FailureKind(StrEnum):
    """Why a task failed."""

    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    START_TIMEOUT = "start_timeout"
    RESULT_INVALID = "result_invalid"
    RESULT_TOO_LARGE = "result_too_large"
    IMPORT_ERROR = "import_error"
    SPAWN_FAILED = "spawn_failed"
    PROTOCOL = "protocol"


@dataclass(frozen=True, slots=True)
class Failure:
    """`cause`: the exception's type or a fixed word; `message` at most 500 characters, `traceback` 64 KiB."""

    kind: FailureKind
    cause: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the task last said of itself by `checkpoint()`."""

    done: float | None = None
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a run: CPU seconds so far, resident bytes now and at most."""

    cpu_seconds: float
    rss_bytes: int | None = None
    max_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StopMoments:
    """The four moments of a stop; those that have not come yet are None."""

    asked_at: datetime
    by: str
    reason: str | None = None
    delivered_at: datetime | None = None
    acknowledged_at: datetime | None = None
    effective_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """One task as it stood at `version`.

    `lease_owner` is the term that manages the run, or, in a snapshot to be saved, the term that saves it.
    `lease_until`, `last_heartbeat_at`, `progress` and `usage` are read from the lease while there is one;
    `save` never writes them. `run_timeout`: seconds that this task may run, said with its submission; None for
    what its definition says. `due_at`: by its node's clock, the moment before which a waiting task does not start.
    """

    id: str
    name: str
    status: Status
    version: int
    node: str
    created_at: datetime
    status_changed_at: datetime
    bucket: int | None = None
    bucket_key: str | None = None
    attempt: int = 0
    max_attempts: int = 1
    unstarted: int = 0
    priority: int = 0
    tags: frozenset[str] = frozenset()
    trigger: str = "manual"
    unique_key: str | None = None
    group_id: str | None = None
    run_timeout: float | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    failure: Failure | None = None
    outcome: Any = None
    exit_code: int | None = None
    exit_signal: int | None = None
    forced: bool = False
    flags: frozenset[str] = frozenset()
    stop: StopMoments | None = None
    lease_owner: str | None = None
    lease_until: datetime | None = None
    last_heartbeat_at: datetime | None = None
    progress: Progress | None = None
    usage: Usage | None = None

    @property
    def attempts_used(self) -> int:
        return self.attempt - self.unstarted

    @property
    def run(self) -> str:
        """The identity of the current attempt on the wire and in files."""
        return f"{self.id}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How the process of one attempt ended; what is not known is None.

    `forced`: a signal of chong's was needed. `kind` and `cause`: of its failure, whose message is the transition's
    reason. `cpu_seconds`, `max_rss_bytes`: of the run with all its processes, by the kernel's account.
    """

    attempt: int
    exit_code: int | None = None
    exit_signal: int | None = None
    forced: bool = False
    kind: str | None = None
    cause: str | None = None
    cpu_seconds: float | None = None
    max_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One audited change of state.

    `at` is when it happened by the writer's clock; the store adds `stored_at` by its own.
    `event_id` names the event that caused it: the same event written twice is written once. `ended`: how the attempt
    ended that this change ends, where its process was seen to.
    """

    task_id: str
    version: int
    source: Status | None
    target: Status
    at: datetime
    actor: str
    event_id: str
    reason: str | None = None
    ended: AttemptEnd | None = None
    stored_at: datetime | None = None


Spot = tuple[str, str | None]
"""The name of a scheduled task and its key, None for work without a key."""


@dataclass(frozen=True, slots=True)
class FiringClaim:
    """Who wants to run one planned instant of a schedule; `event_id` knows the claim again."""

    name: str
    key: str | None
    planned: datetime
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An audit remark that changes no state (`late_result`, `odd_exit`, `adopted` ...); keyed by task and event id."""

    task_id: str
    kind: str
    at: datetime
    actor: str
    event_id: str
    detail: str | None = None
    stored_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """All that is kept of one task, as one call read it; two equal ones say the same of it.

    unreadable_commands: the rows of commands that this version cannot read, each as JSON.
    """

    task: TaskSnapshot
    history: tuple[Transition, ...]
    notes: tuple[Note, ...]
    commands: tuple["Command", ...]
    unreadable_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The lease to create together with a run: who manages it, and for how long without renewal."""

    term: str
    ttl: timedelta


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease row; `is_past` by the store's clock at the moment of reading."""

    task_id: str
    term: str
    until: datetime
    ttl: timedelta
    renewals: int
    is_past: bool


@dataclass(frozen=True, slots=True)
class Beat:
    """What a checkpoint or the sampler has to tell; a None leaves the stored value as it is."""

    task_id: str
    heartbeat_at: datetime | None = None
    progress: Progress | None = None
    usage: Usage | None = None


class Action(StrEnum):
    """What an operator may ask of a task."""

    STOP = "stop"
    PAUSE = "pause"
    FREEZE = "freeze"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An operator's request. It is claimed by the task's node, then completed with an outcome, or released.

    `outcome`: `done` (the intent is recorded), `too_late` (the task had ended), `refused` (with `detail`),
    `superseded` (another command of the same task came before it could take effect, and made it void). `issued_at` is
    by the issuer's clock; the store adds `stored_at` by its own.
    """

    id: str
    task_id: str
    action: Action
    issued_by: str
    issued_at: datetime
    reason: str | None = None
    stored_at: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    finished_at: datetime | None = None
    outcome: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a command, to be stored together with the state that it caused."""

    command_id: str
    outcome: str = "done"
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One entry of `save_many`; the fields mean what the arguments of `save` mean."""

    snapshot: TaskSnapshot
    transitions: tuple[Transition, ...]
    expect_version: int
    lease: LeaseGrant | None = None
    completes: tuple[Completion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TermRecord:
    """One life of a supervisor, with what proves its death: node id, boot id and the inode of its lock file."""

    term: str
    node: str
    node_id: str
    boot_id: str
    lock_inode: int
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node as it declared itself; `seen_at` and `is_live` by the store's clock.

    `machine_id`: a hash of what its machine is known by over boots, as by `boot_id` until the next; empty if unknown.
    `ttl`: how long after `seen_at` the node counts as live. `limits`: limits by name, None for unlimited.
    `containment`: what holds a run together, `cgroup` or `process group`; empty while unknown. `generation`: the
    task modules' generation that new runs are forked from, 0 before the first. `holds_seen`: the revision of the
    store's holds that its current term keeps to, None before the first; a registration leaves it alone. `clock_ahead`:
    how far its host's clock is ahead of the store's, None while that is unknown.
    """

    node: str
    node_id: str
    term: str
    host: str
    machine_id: str = ""
    boot_id: str
    pid: int
    version: str
    ttl: timedelta
    limits: Mapping[str, int | None] = field(default_factory=dict)
    containment: str = ""
    generation: int = 0
    started_at: datetime | None = None
    seen_at: datetime | None = None
    ended_at: datetime | None = None
    holds_seen: int | None = None
    clock_ahead: timedelta | None = None
    is_live: bool = False


class HoldScope(StrEnum):
    """What a hold in the store shuts: a bucket or a name on every node, or all of one node."""

    BUCKET = "bucket"
    NAME = "name"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedHold:
    """A hold in the store: queued work there waits on whichever node; `since` by the store's clock.

    `target`: the bucket's number as text, the task name, or the node.
    """

    scope: HoldScope
    target: str
    by: str
    reason: str | None = None
    since: datetime | None = None

    @property
    def text(self) -> str:
        """For people: why, who, since when, and what it shuts."""
        since = "" if self.since is None else f" since {utc_text(self.since)}"
        what = "the node" if self.scope is HoldScope.NODE else f"the {self.scope} on every node"
        return f"{self.reason + '; ' if self.reason else ''}by {self.by}{since}, of {what}"


@dataclass(frozen=True, slots=True)
class HoldList:
    """All holds in the store as of one moment; `revision` rises with each change of them."""

    revision: int
    holds: tuple[SharedHold, ...]


@dataclass(frozen=True, slots=True)
class BucketDeclaration:
    """A node's static claim to a bucket; for audit and display, it decides nothing."""

    bucket: int
    node: str
    updated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A task definition as a node published it, for display only.

    `options`: the definition's options as JSON values; `error`: why its module could not be loaded; `hold`: why
    queued work of this name waits on the node, None when it does not.
    """

    node: str
    name: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    hold: str | None = None


@dataclass(frozen=True, slots=True)
class BucketLoad:
    """Open work of one bucket (None: keyless tasks), by the store's clock.

    oldest_wait: since a moment that the task's node has stamped, so it is off by as much as that node's clock.
    """

    bucket: int | None
    queued: int
    running: int
    expired: int
    oldest_wait: timedelta | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """What all nodes of a store agree on; `num_buckets` is None until the first supervisor recorded it."""

    num_buckets: int | None
    schema_version: int
    oldest_code: int
