"""Calling dead holders' runs `lost`: the same for `chong reconcile`, the controller and a new term's leftovers."""

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chong.store.contract import TaskStore
from chong.store.errors import RightsMissing, StoreUnavailable
from chong.store.model import Lease, TaskSnapshot
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.store.states import RUNS
from chong.supervisor.watch import Watch

REASON = "its holder is dead: the lease ran out and nobody renewed it"
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Judge:
    """Watches leases and expires those whose holder is dead; `actor` signs the transitions."""

    store: TaskStore
    actor: str

    def candidates(self, buckets: frozenset[int] | None) -> list[TaskSnapshot]:
        """The runs of these buckets (None: of all) whose lease is past by the store's clock."""
        return self._runs(buckets, [lease for lease in self.store.leases() if lease.is_past])

    def _runs(self, buckets: frozenset[int] | None, leases: list[Lease]) -> list[TaskSnapshot]:
        ids = frozenset(lease.task_id for lease in leases)
        if not ids:
            return []
        return list(all_tasks(self.store, TaskQuery(ids=ids, buckets=buckets, statuses=RUNS)))

    def expire(self, ids: Iterable[str], event_id: str) -> list[TaskSnapshot]:
        """Make them `lost`, where the store still finds their lease past; the others' holders came back.

        Called again with the same event id after an outage, it returns what the first call may have done.
        """
        return self.store.expire(sorted(ids), event_id, actor=self.actor, reason=REASON)

    def reconcile(
        self,
        buckets: frozenset[int] | None,
        *,
        on_wait: Callable[[int, float], None] = lambda _count, _seconds: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[TaskSnapshot]:
        """Watch every lease of these buckets until it is renewed, or has run out unrenewed; expire the latter.

        Where all holders live this takes one renewal, for a dead one's run at most one lease. `on_wait` hears how
        many are watched and for how many seconds at most. The store must answer all along: an outage starts the
        watch anew.
        """
        event_id = new_event_id()
        watch = Watch()
        waiting = {task.id for task in self._runs(buckets, self.store.leases())}
        dead: set[str] = set()
        lost: dict[str, TaskSnapshot] = {}
        while waiting or dead:
            try:
                leases = self.store.leases(waiting)
                dead |= set(watch.observe(leases, time.monotonic()))
                lost |= {task.id: task for task in self.expire(dead, event_id)} if dead else {}
            except RightsMissing:
                raise  # whoever waits for that waits for ever
            except StoreUnavailable:
                watch.forget()
                sleep(LOOK_SECONDS)
                continue
            waiting = {lease.task_id for lease in leases}.difference(dead, watch.renewed)
            dead.clear()
            if waiting:
                on_wait(len(waiting), max(lease.ttl.total_seconds() for lease in leases))
                sleep(LOOK_SECONDS)
        return list(lost.values())


def new_event_id() -> str:
    return f"expire.{uuid.uuid4().hex}"
