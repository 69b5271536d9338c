"""When a lease's holder is dead: one rule for outages, clock steps and paused machines.

A holder is dead when its lease is past by the store's clock *and* the judge has itself seen that lease row
unrenewed for one full lease on its own monotonic clock, the store answering throughout. A store that was away
makes every lease past at once, and a clock that jumped does too: neither kills the living, because after it the
judge watches for a whole lease, in which a living holder renews.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chong.store.model import Lease


@dataclass(frozen=True, slots=True)
class _Sighting:
    term: str
    renewals: int
    since: float


class Watch:
    """What a judge has seen of leases so far."""

    def __init__(self) -> None:
        self._seen: dict[str, _Sighting] = {}
        self.renewed: set[str] = set()
        """Leases that were seen renewed or in other hands since they were first seen: their holders live."""

    def observe(self, leases: Sequence[Lease], now: float) -> list[str]:
        """Take note of a reading at the monotonic second `now`; the ids of leases whose holder is dead."""
        dead = []
        seen = {}
        for lease in leases:
            known = self._seen.get(lease.task_id)
            if known is not None and (known.term, known.renewals) != (lease.term, lease.renewals):
                self.renewed.add(lease.task_id)
                known = None
            if known is None:
                known = _Sighting(lease.term, lease.renewals, now)
            seen[lease.task_id] = known
            if lease.is_past and now - known.since >= lease.ttl.total_seconds():
                dead.append(lease.task_id)
        self._seen = seen
        return dead

    def forget(self) -> None:
        """The store did not answer: what was seen before proves nothing, watch anew."""
        self._seen.clear()
