"""The contract that every backend keeps; `chong.store.conformance.StoreContract` checks it.

Rules for all methods:

* Synchronous and safe to call from several threads, and from several processes on the same store.
* Time is the store's: callers pass durations, never "now". A lease is *past* when its end lies before the
  store's clock, or further ahead than its own ttl (the clock jumped back).
* Every transaction locks leases before tasks, ids ascending.
* A write whose event id is already in place is done; the same version with another event id is a conflict.
* A call that returns a list hands each row that it cannot read to the `on_unreadable` that its store was opened with,
  and returns the others: as long as that does not raise, as `refuse` does, which is what a store has without a word.
  Holds, nodes, declarations and definitions are returned with what can be read of them, as others conclude from it
  that one is not there; where that is not enough, the call raises. So does a call about one row, and so does `find`,
  whose callers act on what is returned. What `adopt` and `expire` were to write is written by then, once and for all.
* What is no id is the id of no task: a look finds nothing, a write by ids passes over it, and `renew` returns it; a
  task is never saved with such an id. A text with a NUL, or one that is no Unicode, is `Refused` wherever else it is
  said, to be stored as well as to be looked for; so is a name that is too long for a store to keep.
* Errors are those of `chong.store.errors`. After `StoreUnavailable` a write may or may not have happened:
  write it again, the event id makes that safe.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, Self

from chong.store.alert import Alert, AlertChanges, Finding
from chong.store.deployment import sole_row
from chong.store.errors import UnreadableRow
from chong.store.model import (
    Beat,
    BucketDeclaration,
    BucketLoad,
    CatalogueEntry,
    Command,
    Completion,
    Deployment,
    FiringClaim,
    HoldList,
    HoldScope,
    Lease,
    LeaseGrant,
    NodeRecord,
    Note,
    Save,
    SharedHold,
    Spot,
    TaskRecord,
    TaskSnapshot,
    TermRecord,
    Transition,
)
from chong.store.query import TaskQuery
from chong.store.rebucketing import Progress, Rebucketing
from chong.store.resolution import Resolution
from chong.store.states import Status
from chong.store.survey import Survey

OnUnreadable = Callable[[UnreadableRow], None]


def ignore(_: UnreadableRow) -> None:
    """For whoever has nobody to tell."""


def refuse(fault: UnreadableRow) -> None:
    """For whoever must not go by a part of what is there."""
    raise fault


class Bell(Protocol):
    """For one thread; it may stay silent, and never fails."""

    def wait(self, timeout: float) -> bool:
        """Whether it rang within so many seconds."""

    def close(self) -> None: ...


class TaskStore(ABC):
    """Tasks, leases, commands and nodes of one deployment."""

    # --- tasks -------------------------------------------------------------------------------------------

    def save(
        self,
        snapshot: TaskSnapshot,
        transitions: Sequence[Transition],
        *,
        expect_version: int,
        lease: LeaseGrant | None = None,
        completes: Sequence[Completion] = (),
    ) -> None:
        """Write a task's new state, its audit rows, its lease and its commands' ends in one transaction.

        `expect_version` is the version last stored, 0 for a task that is not stored yet; the new one is
        `snapshot.version` and may be several higher. The row must also stand at the expected attempt (one less
        when `lease` starts a new attempt) and, where a lease row exists, that lease must be held by
        `snapshot.lease_owner`; a final row never changes. Otherwise `ConcurrencyConflict`; `UniqueKeyTaken` when
        the unique key is held by another unfinished task; `Refused` when a value cannot be stored or the
        transitions, where given, do not lead from the stored status to the new one.

        What a task is stays as first saved: name, node, bucket, key, tags, trigger, unique key, group, creation.

        Leases: with `lease`, the row of the former attempt, if any, is replaced by a fresh one. When the
        new status is not a run, heartbeat, progress and usage are copied from the lease row to the task and
        the row is removed. Otherwise the lease row stays as it is: a save never renews.
        """
        verdict = self.save_many(
            [
                Save(
                    snapshot=snapshot,
                    transitions=tuple(transitions),
                    expect_version=expect_version,
                    lease=lease,
                    completes=tuple(completes),
                )
            ]
        )[0]
        if verdict is not None:
            raise verdict

    @abstractmethod
    def save_many(self, saves: Sequence[Save], *, num_buckets: int | None = None) -> list[Exception | None]:
        """Write many tasks in one transaction; per save None, or the error that `save` would raise.

        A refused save leaves nothing behind and does not touch the others. A task may occur once per call.

        num_buckets: by which the buckets of new tasks were computed, where that is to be checked. `Rebucketed` is then
        the verdict on each that has a bucket, when the deployment has recorded another number: no `rebucket` comes
        between this look and the write.
        """

    @abstractmethod
    def get(self, task_id: str) -> TaskSnapshot | None: ...

    @abstractmethod
    def find(self, part: str, *, limit: int = 10) -> list[TaskSnapshot]:
        """Tasks whose id begins or ends with `part`, newest first; both directions are served by an index."""

    @abstractmethod
    def query(self, query: TaskQuery, *, whole: bool = False) -> list[TaskSnapshot]:
        """The tasks that fit; fewer than `query.limit` only where there are no more that can be read.

        whole: as for `history`.
        """

    @abstractmethod
    def history(self, task_id: str, *, whole: bool = False) -> list[Transition]:
        """The task's transitions by version; each one's source is the target of the one before.

        whole: UnreadableRow, whoever hears of such rows, for those who conclude from what is not there.
        """

    @abstractmethod
    def append(self, notes: Sequence[Note]) -> None:
        """Add audit remarks; one with a task and event id already present, or on no stored task, is ignored.

        `Refused` names a remark that cannot be stored, after the rest was written.
        """

    @abstractmethod
    def notes(self, task_id: str) -> list[Note]: ...

    @abstractmethod
    def resolutions(self, ids: Iterable[str]) -> dict[str, Resolution]:
        """What operators have found out of lost tasks, the newest verdict of each, by id; others are left out."""

    @abstractmethod
    def stats(self, buckets: frozenset[int] | None = None) -> dict[Status, int]:
        """How many tasks stand in each status; statuses without tasks are present with 0."""

    @abstractmethod
    def bucket_loads(self) -> list[BucketLoad]:
        """Open work per bucket that has any; keyless work first, then by bucket."""

    @abstractmethod
    def prunable(self, older_than: timedelta, *, limit: int = 100) -> list[TaskRecord]:
        """Up to `limit` final tasks that ended longer ago than this, first the oldest, with all that is theirs.

        A task of which anything cannot be read stays where it is, and is none of them, so there may be fewer though
        more are left; behind `MOST_SKIPPED` of these in one call no others are looked for. None: that was all.
        """

    @abstractmethod
    def count_prunable(self, older_than: timedelta) -> int:
        """How many tasks `prunable` would give in the end."""

    @abstractmethod
    def prune(self, records: Sequence[TaskRecord]) -> set[str]:
        """Remove these final tasks with trail, notes and commands, in one transaction; returns the ids that have gone.

        Those that somebody else has removed are not among them. One of which more or else is stored than its record
        says stays whole: what was added after the record was read, a late note for instance, is never removed unseen.
        `prunable` gives it again.
        """

    @abstractmethod
    def prune_traces(self, older_than: timedelta, *, limit: int = 1000) -> int:
        """Remove up to `limit` old firings, and as many old terms and cleared alerts; returns how many.

        The newest firing of each schedule and key stays, so that no instant can be claimed twice; so does a term
        that holds a lease or is its node's current one.
        """

    @abstractmethod
    def check_serving(self) -> None:
        """ConfigurationError where a supervisor could not work with the store, to which it has to write.

        Looks, and changes nothing.
        """

    @abstractmethod
    def upkeep(self) -> None:
        """What the store's own tables need now and then, an hour apart; any supervisor may do it, several at once."""

    # --- leases ------------------------------------------------------------------------------------------

    @abstractmethod
    def renew(self, term: str, ids: Iterable[str], ttl: timedelta) -> set[str]:
        """Extend the leases of `term` to now + ttl and stamp its node as seen; returns the ids without one.

        Waits for no lease that another transaction holds: that one is renewed now or the next time, and not returned.
        Carries no task data, so that no value of a task can stop a node's renewals. The returned ids are a hint, and
        one may come a renewal late: check before acting.
        """

    @abstractmethod
    def touch(self, term: str, beats: Sequence[Beat]) -> None:
        """Write heartbeats, progress and usage to leases of `term`; others are silently left alone.

        `Refused` names a beat whose values cannot be stored, after the rest was written.
        """

    @abstractmethod
    def leases(self, ids: Iterable[str] | None = None, *, whole: bool = False) -> list[Lease]:
        """The lease rows, all or those of `ids`, by id.

        whole: UnreadableRow for one that cannot be read, whoever hears of such rows.
        """

    @abstractmethod
    def adopt(
        self, old_term: str, new_term: str, ids: Iterable[str], ttl: timedelta, event_id: str
    ) -> list[TaskSnapshot]:
        """Hand the leases of `old_term` over to `new_term`, fresh for `ttl`; for `ids` only.

        Bumps the version, notes `adopted` under the event id and frees command claims of the old term. Returns
        the adopted tasks; a repeated call returns the same ones.
        """

    @abstractmethod
    def expire(self, ids: Iterable[str], event_id: str, *, actor: str, reason: str | None = None) -> list[TaskSnapshot]:
        """Make those of `ids` whose lease is past `lost`, decided on the locked lease row; returns them.

        Bumps the version, adds the transition, and ends the lease as a final save does; open commands for the
        task end as `too_late`. A repeated call returns the same ones.
        """

    # --- commands ----------------------------------------------------------------------------------------

    @abstractmethod
    def submit_command(self, command: Command) -> None:
        """Store a request; one whose id is already there is done. Refused when there is no such task.

        For a task that has ended it is stored as `too_late`: of requests for it none stays open.
        """

    @abstractmethod
    def claim_commands(
        self, node: str, term: str, *, lease: timedelta, limit: int = 100, on_unreadable: OnUnreadable = ignore
    ) -> list[Command]:
        """Pick and lease open commands for tasks of `node`, oldest first.

        Open means not finished and not under somebody's running claim; no command is given to two callers. One that
        cannot be read is no reason for the others to wait: it is ended as `refused`, with what is wrong as its detail,
        and then told to `on_unreadable`.
        """

    def bell(self, node: str) -> Bell | None:
        """Something that rings when a command for a task of this node is stored; None where there is only polling."""
        del node
        return None

    @abstractmethod
    def complete_command(self, command_id: str, outcome: str, detail: str | None = None) -> None:
        """End a command, whoever has claimed it by now; ending it again changes nothing.

        It names no term, as it tells what has become of the task: that stays true when the claim has run out meanwhile,
        and who asked need not wait for the next holder to find the same. Of two ends the first one stands.
        """

    @abstractmethod
    def release_command(self, command_id: str, term: str) -> None:
        """Hand back a command that `term` has claimed, without ending it: it can be claimed again at once.

        Nothing when it is somebody else's claim by now.
        """

    @abstractmethod
    def commands(self, task_id: str) -> list[Command]:
        """The commands of a task that can be read, oldest first; of others `claim_commands` has told."""

    # --- schedules, nodes, deployment --------------------------------------------------------------------

    def claim_firing(self, name: str, key: str | None, planned: datetime, *, node: str, event_id: str) -> bool:
        """Claim one planned instant of a schedule, as `claim_firings` does."""
        (won,) = self.claim_firings([FiringClaim(name, key, planned, event_id)], node=node)
        return won

    @abstractmethod
    def claim_firings(self, claims: Sequence[FiringClaim], *, node: str) -> list[bool]:
        """Claim planned instants of schedules, in one round trip; True for each that the caller may run.

        Of all who claim an instant one is told True. A repeated claim with the same event id is True again.
        """

    @abstractmethod
    def last_firings(self, spots: Sequence[Spot]) -> dict[Spot, datetime]:
        """The newest instant that was claimed of each name and key, in one round trip; without those never claimed."""

    @abstractmethod
    def register_term(self, term: TermRecord, node: NodeRecord) -> None:
        """Record a new life of a supervisor and make it its node's current one.

        Where terms of another state directory had the node's name, the revision of the holds is raised: one of them
        that still lives learns so that it was displaced.
        """

    @abstractmethod
    def end_term(self, term: str) -> None:
        """The term has ended by itself: the node is not live any more, at once, until its next term is registered.

        Nothing when the term is not its node's current one.
        """

    @abstractmethod
    def terms(self, node: str) -> list[TermRecord]:
        """The terms of a node, newest first."""

    @abstractmethod
    def nodes(self) -> list[NodeRecord]: ...

    @abstractmethod
    def declare_buckets(self, node: str, buckets: frozenset[int] | None) -> None:
        """Replace the node's declaration; None for a node without partition, which declares no bucket."""

    @abstractmethod
    def declarations(self) -> list[BucketDeclaration]:
        """All declarations, by bucket and node; duplicates stay visible."""

    @abstractmethod
    def publish_catalogue(self, node: str, entries: Sequence[CatalogueEntry]) -> None:
        """Replace what a node shows as its task definitions."""

    @abstractmethod
    def catalogue(self, node: str | None = None) -> list[CatalogueEntry]: ...

    @abstractmethod
    def deployment(self) -> Deployment: ...

    @abstractmethod
    def record_num_buckets(self, num_buckets: int) -> Deployment:
        """Record the number of buckets if none is recorded yet; returns what stands then."""

    # --- holds, and nodes that are gone ------------------------------------------------------------------

    @abstractmethod
    def place_hold(self, hold: SharedHold) -> int:
        """Let work of a bucket, a name or a node wait; returns the revision by which nodes know of it.

        What is held already stays held as it is. Refused for a node that there is none of, which is looked at in the
        same transaction: it may have been forgotten just now.
        """

    @abstractmethod
    def lift_hold(self, scope: HoldScope, target: str) -> int:
        """Undo a hold; returns the revision by which nodes know of it. What is not held is done."""

    def holds(self) -> HoldList:
        return sole_row(self.changed_holds(None))

    @abstractmethod
    def changed_holds(self, known: int | None) -> HoldList | None:
        """All holds, or None while their revision is still `known`; one small query."""

    @abstractmethod
    def acknowledge_holds(self, term: str, revision: int) -> bool:
        """The node keeps to the holds of this revision; False when the term is not its node's current one.

        That is so as well when the node was forgotten.
        """

    @abstractmethod
    def forget_node(self, node: str, event_id: str, *, actor: str, reason: str, limit: int = 1000) -> int:
        """Make up to `limit` waiting tasks of a node `lost`; returns how many: call it again until that is 0.

        The call that returns 0 has removed the node with its declaration, its catalogue and the hold on it, and has
        raised the revision of the holds: a supervisor that was only cut off learns so that it was forgotten. Terms
        and runs stay. Each task gets a transition by `actor` and a note `forgotten`; open commands for it end as
        `too_late`.

        Refused when the node is live, which is looked at in the same transaction, and when there is none.
        """

    @abstractmethod
    def rebucket(
        self,
        num_buckets: int,
        event_id: str,
        *,
        actor: str,
        reason: str | None = None,
        on_progress: Progress | None = None,
    ) -> Rebucketing:
        """Change the number of buckets, and the bucket of each waiting task by its key; all of it or nothing.

        Each task that moves gets a note `rebucketed` by `actor`. All declarations of buckets are dropped, and the
        revision of the holds is raised: a supervisor that was only cut off learns of it. Final tasks keep the bucket in
        which they ran. The number that stands already may be given, and every bucket is computed anew.

        Refused while a node is live, a run is open or a bucket is held, which is looked at in the same transaction,
        and when no number is recorded yet. A repeated call with the same event id returns what the first one has done.
        """

    @abstractmethod
    def rebucketings(self) -> list[Rebucketing]:
        """All changes of the number of buckets, newest first."""

    # --- the deployment as a whole -----------------------------------------------------------------------

    @abstractmethod
    def survey(self, *, still: timedelta) -> Survey:
        """Everything that the checks of a deployment look at, read in one transaction that writes nothing.

        still: how long a task has to have stood in its state to be counted as `OpenWork.still`.
        """

    @abstractmethod
    def report_clock(self, term: str, ahead: timedelta) -> None:
        """Note how far the clock of the term's host is ahead of the store's; forgotten with the next registration."""

    @abstractmethod
    def report_findings(self, findings: Sequence[Finding], *, quiet: timedelta, event_id: str) -> AlertChanges:
        """Remember what a supervisor has found; returns what that has changed, to this one caller only.

        A finding without an open alert raises one; else the open alert was seen now, with the finding's detail. Open
        alerts that no report has named for `quiet` are cleared. A repeated call with the same event id returns what
        the first one has changed as well.
        """

    @abstractmethod
    def alerts(self, *, cleared: bool = False, limit: int = 1000) -> list[Alert]:
        """The open alerts, newest first; with `cleared` those that are over, too."""

    @abstractmethod
    def acknowledge_alert(self, alert_id: int, by: str) -> Alert | None:
        """Note who has taken an open alert on; the first one stands. Returns the alert, None when there is none."""

    @abstractmethod
    def close(self) -> None:
        """Wait for calls under way, up to the store's own deadline, then disconnect; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
