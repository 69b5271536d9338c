"""Calling dead holders' runs `lost`: the same for `chong reconcile`, the controller and a new term's leftovers."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from chong.store.contract import TaskStore
from chong.store.errors import StoreUnavailable
from chong.store.model import TaskSnapshot
from chong.store.query import MAX_LIMIT, TaskQuery
from chong.store.states import RUNS
from chong.supervisor.judge import Watch

REASON = "its holder is dead: the lease ran out and nobody renewed it"
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Judge:
    """Watches leases and expires those whose holder is dead; `actor` signs the transitions."""

    store: TaskStore
    actor: str

    def candidates(self, buckets: frozenset[int] | None) -> list[TaskSnapshot]:
        """The runs of these buckets (None: of all) whose lease is past by the store's clock."""
        past = frozenset(lease.task_id for lease in self.store.leases() if lease.is_past)
        if not past:
            return []
        query = TaskQuery(ids=past, buckets=buckets, statuses=RUNS, limit=MAX_LIMIT)
        return self.store.query(query)

    def expire(self, ids: list[str]) -> list[TaskSnapshot]:
        """Make them `lost`, where the store still finds their lease past; the others' holders came back."""
        return self.store.expire(ids, f"expire.{uuid.uuid4().hex}", actor=self.actor, reason=REASON)

    def reconcile(
        self,
        buckets: frozenset[int] | None,
        *,
        on_wait: Callable[[int, float], None] = lambda _count, _seconds: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[TaskSnapshot]:
        """Watch the candidates for one lease of each, then expire those that nobody renewed.

        `on_wait` hears how many are watched and for how many seconds at most. The store must answer all
        along: an outage starts the watch anew.
        """
        waiting = frozenset(task.id for task in self.candidates(buckets))
        watch = Watch()
        lost: list[TaskSnapshot] = []
        while waiting:
            try:
                leases = [lease for lease in self.store.leases(waiting) if lease.is_past]
                dead = watch.observe(leases, time.monotonic())
                lost += self.expire(dead) if dead else []
            except StoreUnavailable:
                watch.forget()
                sleep(LOOK_SECONDS)
                continue
            waiting = frozenset(lease.task_id for lease in leases).difference(dead)
            if waiting:
                on_wait(len(waiting), max(lease.ttl.total_seconds() for lease in leases))
                sleep(LOOK_SECONDS)
        return lost
