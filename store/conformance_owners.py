"""What every store promises about whose a run is: who may take it over, and who may call it lost."""
# ruff: noqa: PLR2004 - the numbers are the cases

from datetime import timedelta

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict
from chong.store.model import Beat, Progress, Usage
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    SetClock,
    moved,
    put,
    read,
    request,
    stored_end,
    stored_queued,
    stored_run,
)
from chong.store.states import Status


class OwnerRules(Rules):
    """`adopt`, `expire`."""

    def test_a_lease_that_is_no_longer_renewed_can_be_judged(self, store: TaskStore, clock: SetClock) -> None:
        """Although its term still renews others."""
        kept, left = stored_run(store, 1), stored_run(store, 2)
        store.renew(TERM, [kept.id, left.id], TTL)
        clock.advance(20)
        store.renew(TERM, [kept.id], TTL)
        clock.advance(10.001)
        assert [left.id] == [task.id for task in store.expire([kept.id, left.id], "event", actor="judge")]
        assert read(store, kept).lease_until == START + TTL + timedelta(seconds=20)

    def test_a_term_that_renews_no_more_loses_all_its_leases(self, store: TaskStore, clock: SetClock) -> None:
        """Each is judged for itself, and shows when it ran out."""
        runs = [stored_run(store, number) for number in (1, 2)]
        for _ in range(2):
            store.renew(TERM, [run.id for run in runs], TTL)
        clock.advance(30.001)
        assert [load.expired for load in store.bucket_loads()] == [len(runs)]
        assert [runs[0].id] == [task.id for task in store.expire([runs[0].id], "event", actor="judge")]
        assert [(runs[1].id, True)] == [(lease.task_id, lease.is_past) for lease in store.leases()]

    def test_a_former_terms_renewals_do_not_reach_an_adopted_lease(self, store: TaskStore, clock: SetClock) -> None:
        """Nor do they hold up the judge of the new term."""
        run, other = stored_run(store, 1), stored_run(store, 2)
        store.renew(TERM, [run.id, other.id], TTL)
        store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        clock.advance(20)
        assert {run.id} == store.renew(TERM, [run.id, other.id], TTL)
        assert [START + TTL, clock.now + TTL] == [lease.until for lease in store.leases()]
        clock.advance(10.001)
        assert [run.id] == [task.id for task in store.expire([run.id, other.id], "late", actor="judge")]

    def test_adopting_hands_the_lease_over(self, store: TaskStore, clock: SetClock) -> None:
        """The new term holds it, fresh; the version tells the former one that it is out."""
        run = stored_run(store)
        store.touch(TERM, [Beat(run.id, START)])
        clock.advance(100)
        (adopted,) = store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        assert (LATER_TERM, clock.now + TTL) == (adopted.lease_owner, adopted.lease_until)
        assert (run.version + 1, run.status, START) == (
            adopted.version,
            adopted.status,
            adopted.last_heartbeat_at,
        )
        assert adopted == read(store, run)

    def test_adopting_is_noted(self, store: TaskStore) -> None:
        """An audit remark under the event's id, no transition."""
        run = stored_run(store)
        store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        (note,) = store.notes(run.id)
        assert (note.kind, note.event_id, note.actor) == ("adopted", "event", LATER_TERM)
        assert len(store.history(run.id)) == 2

    def test_the_former_term_is_out_after_an_adoption(self, store: TaskStore) -> None:
        """It can neither write nor renew."""
        run = stored_run(store)
        store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        assert {run.id} == store.renew(TERM, [run.id], TTL)
        with pytest.raises(ConcurrencyConflict):
            put(store, run, moved(run, Status.SUCCEEDED))

    def test_the_new_term_goes_on_after_an_adoption(self, store: TaskStore) -> None:
        """From the version that adopt() returned."""
        run = stored_run(store)
        (adopted,) = store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        end = put(store, adopted, moved(adopted, Status.SUCCEEDED))
        assert read(store, end).status == Status.SUCCEEDED

    def test_adopting_again_gives_the_same_tasks(self, store: TaskStore) -> None:
        """After a lost answer nothing is adopted twice."""
        run = stored_run(store)
        first = store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        assert first == store.adopt(TERM, LATER_TERM, [run.id], TTL, "event")
        assert len(store.notes(run.id)) == 1

    def test_adopting_takes_only_what_is_listed_and_the_old_terms(self, store: TaskStore) -> None:
        """Neither other ids, nor other terms' leases, nor tasks without one."""
        runs = [stored_run(store, 1), stored_run(store, 2), stored_run(store, 3, lease_owner=FOREIGN_TERM)]
        ended = stored_end(store, 4)
        ids = [runs[0].id, runs[2].id, ended.id]
        assert [runs[0].id] == [task.id for task in store.adopt(TERM, LATER_TERM, ids, TTL, "event")]
        assert [read(store, run).lease_owner for run in runs] == [LATER_TERM, TERM, FOREIGN_TERM]

    def test_adopting_frees_the_old_terms_commands(self, store: TaskStore) -> None:
        """The new term need not wait for claims that nobody will complete."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        store.adopt(TERM, LATER_TERM, [], TTL, "event")
        assert [c.id for c in store.claim_commands(NODE, LATER_TERM, lease=TTL)] == ["command-1"]

    def test_expiring_makes_a_past_lease_lost(self, store: TaskStore, clock: SetClock) -> None:
        """The status, its time, the version and the trail say so, and the lease is gone."""
        run = stored_run(store)
        clock.advance(31)
        (lost,) = store.expire([run.id], "event", actor="judge", reason="no sign of life")
        assert (Status.LOST, run.version + 1, clock.now) == (lost.status, lost.version, lost.ended_at)
        assert (clock.now, None, []) == (lost.status_changed_at, lost.lease_owner, store.leases())
        last = store.history(run.id)[-1]
        assert (Status.STARTING, Status.LOST, lost.version) == (last.source, last.target, last.version)
        assert (last.actor, last.event_id, last.reason) == ("judge", "event", "no sign of life")

    def test_expiring_keeps_the_last_signs_of_the_run(self, store: TaskStore, clock: SetClock) -> None:
        """As any other end does."""
        run = stored_run(store)
        store.touch(TERM, [Beat(run.id, START, Progress(1), Usage(2.0))])
        clock.advance(31)
        (lost,) = store.expire([run.id], "event", actor="judge")
        assert (START, Progress(1), Usage(2.0)) == (lost.last_heartbeat_at, lost.progress, lost.usage)

    def test_expiring_takes_the_flags_of_the_run(self, store: TaskStore, clock: SetClock) -> None:
        """What is lost is neither frozen nor unkillable, as far as anybody knows."""
        run = stored_run(store)
        flagged = moved(run, run.status, flags=frozenset({"unkillable"}))
        put(store, run, flagged)
        clock.advance(31)
        (lost,) = store.expire([run.id], "event", actor="judge")
        assert frozenset() == lost.flags

    def test_expiring_leaves_a_lease_that_holds(self, store: TaskStore, clock: SetClock) -> None:
        """A renewal in time wins, whatever the judge believed."""
        run = stored_run(store)
        clock.advance(31)
        store.renew(TERM, [run.id], TTL)
        assert store.expire([run.id], "event", actor="judge") == []
        assert read(store, run).status is Status.STARTING

    def test_expiring_works_after_the_clock_jumped_back(self, store: TaskStore, clock: SetClock) -> None:
        """A lease of the future is past."""
        run = stored_run(store)
        clock.advance(-3600)
        assert [run.id] == [task.id for task in store.expire([run.id], "event", actor="judge")]

    def test_expiring_again_gives_the_same_tasks(self, store: TaskStore, clock: SetClock) -> None:
        """After a lost answer nothing is lost twice."""
        run = stored_run(store)
        clock.advance(31)
        first = store.expire([run.id], "event", actor="judge")
        assert first == store.expire([run.id], "event", actor="judge")
        assert len(store.history(run.id)) == 3

    def test_expiring_takes_only_what_is_listed(self, store: TaskStore, clock: SetClock) -> None:
        """Neither other ids, nor waiting and final tasks, nor what another event made lost."""
        first, second = stored_run(store, 1), stored_run(store, 2)
        others = [stored_queued(store, 3), stored_end(store, 4)]
        clock.advance(31)
        store.expire([first.id], "other event", actor="judge")
        ids = [first.id, *(task.id for task in others)]
        assert store.expire(ids, "event", actor="judge") == []
        assert read(store, second).status is Status.STARTING

    def test_a_lost_task_takes_no_late_result(self, store: TaskStore, clock: SetClock) -> None:
        """Its holder learns that it was judged."""
        run = stored_run(store)
        clock.advance(31)
        store.expire([run.id], "event", actor="judge")
        with pytest.raises(ConcurrencyConflict):
            put(store, run, moved(run, Status.SUCCEEDED))
