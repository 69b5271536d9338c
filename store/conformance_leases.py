"""What every store promises about leases, commands, and who may take what from whom."""
# ruff: noqa: PLR2004 - the numbers are the cases

from dataclasses import replace
from datetime import timedelta

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, Refused
from chong.store.model import Action, Beat, Progress, Usage
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
    queued,
    read,
    request,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
)
from chong.store.states import Status


class LeaseRules(Rules):
    """`renew`, `touch`, `leases`, `adopt`, `expire`."""

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

    def test_a_beat_that_cannot_be_stored_does_not_hide_the_others(self, store: TaskStore) -> None:
        """The rest is written, then the bad one is named."""
        bad, good = stored_run(store, 1), stored_run(store, 2)
        with pytest.raises(Refused, match=bad.id):
            store.touch(TERM, [Beat(bad.id, START, Progress(float("nan"))), Beat(good.id, START)])
        assert read(store, good).last_heartbeat_at == START

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

    def test_requests_for_a_lost_run_end(self, store: TaskStore, clock: SetClock) -> None:
        """Its node may never come back to answer them; those for others stay open."""
        run = stored_run(store)
        clock.advance(31)
        living = stored_run(store, 2)
        for number, task in enumerate((run, living)):
            store.submit_command(request(number, task))
        store.expire([run.id, living.id], "event", actor="judge")
        (closed,), (still_open,) = store.commands(run.id), store.commands(living.id)
        assert (closed.outcome, closed.detail, closed.finished_at) == ("too_late", "the task is lost", clock.now)
        assert still_open.finished_at is None

    def test_a_request_for_what_has_ended_is_closed_at_once(self, store: TaskStore, clock: SetClock) -> None:
        """Whoever asked had looked before the end; nobody is left to take it up."""
        task = stored_end(store)
        for _ in range(2):
            store.submit_command(request(1, task))
        (command,) = store.commands(task.id)
        assert (command.outcome, command.detail) == ("too_late", "the task is succeeded")
        assert command.finished_at == clock.now
        assert store.claim_commands(NODE, TERM, lease=TTL) == []

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


class CommandRules(Rules):
    """`submit_command`, `claim_commands`, `complete_command`, `release_command`, `commands`."""

    def test_a_command_comes_back_as_it_was_submitted(self, store: TaskStore, clock: SetClock) -> None:
        """With its reason, and neither claimed nor finished; the store says when it took it."""
        command = request(1, stored_run(store), action=Action.PAUSE, reason="wegen 名")
        store.submit_command(command)
        assert [replace(command, stored_at=clock.now)] == store.commands(command.task_id)

    def test_a_command_for_an_unknown_task_is_refused(self, store: TaskStore) -> None:
        """Nobody would ever claim it."""
        with pytest.raises(Refused):
            store.submit_command(request(1, queued(404)))

    def test_a_command_submitted_twice_is_there_once(self, store: TaskStore, clock: SetClock) -> None:
        """The id says that it is the same; it was stored when it came first."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        stored_at = clock.now
        clock.advance(5)
        store.submit_command(request(1, run))
        assert [stored_at] == [command.stored_at for command in store.commands(run.id)]

    def test_commands_are_claimed_oldest_first(self, store: TaskStore, clock: SetClock) -> None:
        """Up to the limit, each with its claim."""
        run = stored_run(store)
        for number in (2, 3, 1):
            store.submit_command(request(number, run))
        claimed = store.claim_commands(NODE, TERM, lease=TTL, limit=2)
        assert [command.id for command in claimed] == ["command-1", "command-2"]
        assert {(TERM, clock.now + TTL)} == {(c.claimed_by, c.claimed_until) for c in claimed}
        assert [c.id for c in store.commands(run.id)] == ["command-1", "command-2", "command-3"]

    def test_commands_are_claimed_in_the_order_in_which_they_were_stored(
        self, store: TaskStore, clock: SetClock
    ) -> None:
        """Of two issuers one has a clock that is ahead: what was asked last is carried out last."""
        run = stored_run(store)
        store.submit_command(request(1, run, issued_at=clock.now + timedelta(hours=1)))
        clock.advance(1)
        store.submit_command(request(2, run, issued_at=clock.now))
        assert [command.id for command in store.commands(run.id)] == ["command-1", "command-2"]
        claimed = store.claim_commands(NODE, TERM, lease=TTL)
        assert [command.id for command in claimed] == ["command-1", "command-2"]

    def test_a_claimed_command_is_given_to_nobody_else(self, store: TaskStore, clock: SetClock) -> None:
        """Not while the claim runs."""
        store.submit_command(request(1, stored_run(store)))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(30)
        assert store.claim_commands(NODE, LATER_TERM, lease=TTL) == []

    @pytest.mark.parametrize("seconds", [31, -1])
    def test_a_past_claim_can_be_claimed_anew(self, store: TaskStore, clock: SetClock, seconds: float) -> None:
        """After its end, and when the clock jumped back."""
        store.submit_command(request(1, stored_run(store)))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(seconds)
        (command,) = store.claim_commands(NODE, LATER_TERM, lease=TTL)
        assert command.claimed_by == LATER_TERM

    def test_another_nodes_commands_are_not_claimed(self, store: TaskStore) -> None:
        """A command goes to the node of its task."""
        store.submit_command(request(1, stored_run(store, 1, node="node-b")))
        assert store.claim_commands(NODE, TERM, lease=TTL) == []
        assert len(store.claim_commands("node-b", FOREIGN_TERM, lease=TTL)) == 1

    def test_a_completed_command_is_over(self, store: TaskStore, clock: SetClock) -> None:
        """It keeps its outcome, and nobody claims it."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.complete_command("command-1", "too_late", "ended before")
        (command,) = store.commands(run.id)
        assert ("too_late", "ended before", clock.now) == (
            command.outcome,
            command.detail,
            command.finished_at,
        )
        assert store.claim_commands(NODE, TERM, lease=TTL) == []

    def test_the_first_end_of_a_command_stands(self, store: TaskStore, clock: SetClock) -> None:
        """Ending it again, or handing it back, changes nothing."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.complete_command("command-1", "done")
        before = store.commands(run.id)
        clock.advance(5)
        store.complete_command("command-1", "refused", "again")
        store.release_command("command-1", TERM)
        assert before == store.commands(run.id)

    def test_a_released_command_can_be_claimed_at_once(self, store: TaskStore, clock: SetClock) -> None:
        """It is open again, and not finished."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        store.release_command("command-1", TERM)
        assert [request(1, run, stored_at=clock.now)] == store.commands(run.id)
        assert len(store.claim_commands(NODE, LATER_TERM, lease=TTL)) == 1

    def test_a_term_cannot_release_the_claim_of_the_next_one(self, store: TaskStore, clock: SetClock) -> None:
        """Its own ran out; the command would be given to a third one while the second acts on it."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(31)
        store.claim_commands(NODE, LATER_TERM, lease=TTL)
        store.release_command("command-1", TERM)
        assert [command.claimed_by for command in store.commands(run.id)] == [LATER_TERM]
        assert store.claim_commands(NODE, TERM, lease=TTL) == []

    def test_a_term_can_end_a_command_that_the_next_one_has_claimed(self, store: TaskStore, clock: SetClock) -> None:
        """What it tells of the task is so, whoever tells it; and the end of the next one changes nothing."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        store.claim_commands(NODE, TERM, lease=TTL)
        clock.advance(31)
        store.claim_commands(NODE, LATER_TERM, lease=TTL)
        store.complete_command("command-1", "done")
        store.complete_command("command-1", "too_late")
        assert [command.outcome for command in store.commands(run.id)] == ["done"]

    def test_commands_that_are_not_there_can_be_ended_and_released(self, store: TaskStore) -> None:
        """Their task may have been pruned meanwhile."""
        store.complete_command("nothing", "done")
        store.release_command("nothing", TERM)
        assert store.commands(task_id(404)) == []
