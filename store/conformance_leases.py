"""What every store promises about leases: how long they hold, and what they know of a run."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import Beat, Progress, Usage
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    START,
    TERM,
    TTL,
    SetClock,
    read,
    stored_queued,
    stored_run,
    task_id,
)


class LeaseRules(Rules):
    """`renew`, `touch`, `leases`."""

    def test_a_run_shows_its_lease(self, store: TaskStore) -> None:
        """Who manages it, and until when."""
        run = stored_run(store)
        assert replace(run, lease_until=START + TTL) == read(store, run)
        (lease,) = store.leases()
        assert (run.id, TERM, TTL, 0, False) == (
            lease.task_id,
            lease.term,
            lease.ttl,
            lease.renewals,
            lease.is_past,
        )

    def test_renewing_extends_from_now(self, store: TaskStore, clock: SetClock) -> None:
        """The new end counts from the renewal, by the store's clock, and renewals are counted."""
        run = stored_run(store)
        clock.advance(20)
        assert store.renew(TERM, [run.id], timedelta(seconds=40)) == set()
        (lease,) = store.leases()
        assert (clock.now + timedelta(seconds=40), timedelta(seconds=40)) == (lease.until, lease.ttl)
        assert lease.renewals == 1

    def test_renewing_tells_what_was_not_found(self, store: TaskStore) -> None:
        """Ids without a lease, with another term's lease, or unknown come back."""
        mine, foreign = stored_run(store, 1), stored_run(store, 2, lease_owner=FOREIGN_TERM)
        waiting = stored_queued(store, 3)
        ids = [mine.id, foreign.id, waiting.id, task_id(404)]
        assert {foreign.id, waiting.id, task_id(404)} == store.renew(TERM, ids, TTL)

    def test_renewing_leaves_the_task_alone(self, store: TaskStore) -> None:
        """No version, no trail: only the lease row is written."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)
        assert (run.version, 2) == (read(store, run).version, len(store.history(run.id)))

    def test_renewing_another_terms_lease_changes_nothing(self, store: TaskStore) -> None:
        """A term keeps only its own runs alive."""
        stored_run(store)
        before = store.leases()
        store.renew(LATER_TERM, [before[0].task_id], TTL * 2)
        assert before == store.leases()

    def test_renewing_revives_a_lease_that_nobody_expired(self, store: TaskStore, clock: SetClock) -> None:
        """Past is not yet lost: a term that was away for a while goes on."""
        run = stored_run(store)
        clock.advance(100)
        assert store.renew(TERM, [run.id], TTL) == set()
        assert store.leases()[0].is_past is False

    def test_a_lease_that_a_renewal_does_not_name_keeps_its_end(self, store: TaskStore, clock: SetClock) -> None:
        """A term gives up a run by no longer naming it; the others go on, and so does that one if it is named again."""
        kept, left = stored_run(store, 1), stored_run(store, 2)
        clock.advance(10)
        store.renew(TERM, [kept.id, left.id], TTL)
        clock.advance(10)
        for _ in range(2):
            assert store.renew(TERM, [kept.id], TTL * 2) == set()
        ends = [(lease.until, lease.ttl, lease.renewals) for lease in store.leases()]
        assert [
            (START + 2 * TTL + timedelta(seconds=20), TTL * 2, 3),
            (START + TTL + timedelta(seconds=10), TTL, 1),
        ] == ends
        clock.advance(20.001)
        assert [lease.is_past for lease in store.leases()] == [False, True]
        assert store.renew(TERM, [kept.id, left.id], TTL) == set()
        assert [(clock.now + TTL, 4), (clock.now + TTL, 2)] == [
            (lease.until, lease.renewals) for lease in store.leases()
        ]

    def test_renewing_never_makes_a_lease(self, store: TaskStore) -> None:
        """Only a new attempt does."""
        task = stored_queued(store)
        store.renew(TERM, [task.id], TTL)
        assert store.leases() == []

    @pytest.mark.parametrize("seconds", [0, 29, 30, -0.0])
    def test_a_lease_is_not_past_before_its_end(self, store: TaskStore, clock: SetClock, seconds: float) -> None:
        """From its beginning to its very end it holds."""
        stored_run(store)
        clock.advance(seconds)
        assert [lease.is_past for lease in store.leases()] == [False]

    @pytest.mark.parametrize("seconds", [30.001, 3600, -0.001, -3600])
    def test_a_lease_is_past_after_its_end_and_after_a_jump_back(
        self, store: TaskStore, clock: SetClock, seconds: float
    ) -> None:
        """A lease further ahead than its own length was given by a clock that has since jumped back."""
        stored_run(store)
        clock.advance(seconds)
        assert [lease.is_past for lease in store.leases()] == [True]

    def test_leases_are_listed_by_id(self, store: TaskStore) -> None:
        """All of them, or those asked for; ids without one are left out."""
        for number in (3, 1, 2):
            stored_run(store, number)
        assert [int(lease.task_id[:8], 16) for lease in store.leases()] == [1, 2, 3]
        some = store.leases([task_id(3), task_id(1), task_id(404)])
        assert [task_id(1), task_id(3)] == [lease.task_id for lease in some]

    def test_touching_shows_in_the_snapshot(self, store: TaskStore) -> None:
        """Heartbeat, progress and usage are read from the lease while there is one."""
        run = stored_run(store)
        store.touch(TERM, [Beat(run.id, START, Progress(1.5, 90, "Seite 名"), Usage(0.25, 10, 20))])
        found = read(store, run)
        assert (START, Progress(1.5, 90, "Seite 名")) == (found.last_heartbeat_at, found.progress)
        assert Usage(0.25, 10, 20) == found.usage

    def test_touching_with_none_leaves_the_value(self, store: TaskStore) -> None:
        """A sampler that knows only the usage does not wipe out a heartbeat."""
        run = stored_run(store)
        store.touch(TERM, [Beat(run.id, START, Progress(1))])
        store.touch(TERM, [Beat(run.id, usage=Usage(2.0))])
        found = read(store, run)
        assert (START, Progress(1), Usage(2.0)) == (found.last_heartbeat_at, found.progress, found.usage)

    def test_touching_does_not_renew(self, store: TaskStore, clock: SetClock) -> None:
        """A heartbeat is never taken for a sign of the supervisor's life."""
        run = stored_run(store)
        clock.advance(10)
        store.touch(TERM, [Beat(run.id, clock.now)])
        assert (START + TTL, run.version) == (read(store, run).lease_until, read(store, run).version)

    def test_touching_what_is_not_mine_is_silent(self, store: TaskStore) -> None:
        """Another term's lease, a waiting task and an unknown one are left alone."""
        run, waiting = stored_run(store, 1), stored_queued(store, 2)
        store.touch(LATER_TERM, [Beat(run.id, START), Beat(waiting.id, START), Beat(task_id(404), START)])
        assert (read(store, run).last_heartbeat_at, read(store, waiting).last_heartbeat_at) == (None, None)

    @pytest.mark.parametrize(
        "said",
        [
            {"progress": Progress(float("nan"))},
            {"progress": Progress(10**400)},
            {"usage": Usage(1e300)},
            {"usage": Usage(1.0, 2**63)},
        ],
        ids=str,
    )
    def test_a_beat_that_cannot_be_stored_does_not_hide_the_others(self, store: TaskStore, said: Any) -> None:
        """The rest is written, then the bad one is named. What nobody could read back counts as such, too."""
        bad, good = stored_run(store, 1), stored_run(store, 2)
        with pytest.raises(Refused, match=bad.id):
            store.touch(TERM, [Beat(bad.id, START, **said), Beat(good.id, START)])
        assert read(store, good).last_heartbeat_at == START
