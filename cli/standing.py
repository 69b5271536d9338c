"""How a task stands beside its own snapshot: whether anybody still manages it, and what keeps it from starting."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from chong.cli.times import span
from chong.store.contract import TaskStore
from chong.store.model import NodeRecord, TaskSnapshot
from chong.store.resolution import Resolution
from chong.store.states import WAITING, Status
from chong.supervisor.flags import FROZEN, UNKILLABLE
from chong.supervisor.shown_holds import ShownHolds


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one task. What is past and who is live, the store has judged by its own clock.

    `lease_until`: the end of the lease that is past, None while it is not. `node_state`: the node in one word, as
    `chong nodes` has it, and `forgotten` where that has it no more. `silent_since`: when the node was last seen, where
    that is known. `hold`: why a waiting task does not start. `resolved`: what an operator has found out of a lost one.
    """

    lease_until: datetime | None = None
    node_state: str = "live"
    silent_since: datetime | None = None
    hold: str | None = None
    resolved: Resolution | None = None

    @property
    def node_is_live(self) -> bool:
        return self.node_state == "live"

    @property
    def lease_is_past(self) -> bool:
        return self.lease_until is not None

    def lease_text(self, now: datetime) -> str | None:
        """How long the lease has been past, where it is."""
        return None if self.lease_until is None else f"lease past{_since(self.lease_until, now)}"

    def node_text(self, now: datetime) -> str | None:
        """That the node is not there, and since when, where that is so."""
        return None if self.node_is_live else f"node {self.node_state}{_since(self.silent_since, now)}"


UNKNOWN = Standing()
"""Nothing is known that speaks against the task."""


def _since(moment: datetime | None, now: datetime) -> str:
    """Only a moment that lies behind: a lease is also past when the store's clock has jumped back."""
    return f" {span(now - moment)}" if moment is not None and moment <= now else ""


def standings(store: TaskStore, tasks: Sequence[TaskSnapshot]) -> list[Standing]:
    """One for each task. Read after the tasks: a run that ended in between has no lease, and so none that is past."""
    nodes = {record.node: record for record in store.nodes()}
    holds = ShownHolds(store.catalogue(), store.holds().holds)
    leases = store.leases([task.id for task in tasks if task.status.is_run])
    past = {lease.task_id: lease.until for lease in leases if lease.is_past}
    lost = [task.id for task in tasks if task.status is Status.LOST]
    resolved = store.resolutions(lost) if lost else {}
    return [
        _standing(task, nodes.get(task.node), past.get(task.id), holds)
        if task.id not in resolved
        else Standing(resolved=resolved[task.id])
        for task in tasks
    ]


def _standing(
    task: TaskSnapshot,
    node: NodeRecord | None,
    lease_until: datetime | None,
    holds: ShownHolds,
) -> Standing:
    if task.status.is_final:
        return UNKNOWN
    return Standing(
        lease_until=lease_until,
        node_state=state_of(node),
        silent_since=None if node is None else node.seen_at,
        hold=holds.on(task) if task.status in WAITING else None,
    )


def state_of(node: NodeRecord | None) -> str:
    """One word; who has ended by itself is not missed."""
    if node is None:
        return "forgotten"
    if node.ended_at is not None:
        return "down"
    return "live" if node.is_live else "silent"


def mark_of(task: TaskSnapshot, standing: Standing, now: datetime) -> str | None:
    """What an operator has to know beside the status, the gravest first."""
    marks: Iterable[str | None] = (
        standing.lease_text(now),
        standing.node_text(now),
        *(flag for flag in (UNKILLABLE, FROZEN) if flag in task.flags),
        "held" if standing.hold is not None else None,
        None if standing.resolved is None else f"resolved: {standing.resolved.verdict}",
        due_text(task, now),
    )
    return next((mark for mark in marks if mark is not None), None)


def due_text(task: TaskSnapshot, now: datetime) -> str | None:
    """How long a waiting task is not to start yet, where that is so."""
    if task.due_at is None or task.status not in WAITING or task.due_at <= now:
        return None
    return f"due in {span(task.due_at - now)}"
