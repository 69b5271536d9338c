"""What every store promises about writing tasks and their trail."""
# ruff: noqa: PLR2004 - the numbers are the cases

import threading
from dataclasses import fields, replace
from datetime import timedelta, timezone

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, Refused
from chong.store.model import (
    Beat,
    Completion,
    Failure,
    FailureKind,
    LeaseGrant,
    Progress,
    StopMoments,
    TaskSnapshot,
    Usage,
)
from chong.store.specimens import (
    LATER_TERM,
    START,
    TERM,
    TTL,
    SetClock,
    moved,
    put,
    queued,
    read,
    request,
    save_of,
    start_of,
    step,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
)
from chong.store.states import FINAL, Status

AWKWARD = {"名": ["ü", "\N{PILE OF POO}", "a\u0000b"], "n": None, "deep": [[{"x": 1.5, "big": 2**70}]], "": True}


def full_task() -> TaskSnapshot:
    """A task with every field of a first save away from its default."""
    return queued(
        name="büro.名",
        bucket=7,
        bucket_key="acmé 🙂",
        attempt=2,
        max_attempts=4,
        unstarted=1,
        priority=-3,
        tags=frozenset({"io", "größe"}),
        trigger="schedule",
        unique_key="once",
        group_id="group",
        run_timeout=90.5,
        due_at=START + timedelta(hours=1, microseconds=1),
        started_at=START + timedelta(seconds=1),
        ended_at=START + timedelta(microseconds=1),
        failure=Failure(FailureKind.TIMEOUT, "Zeit", "über\nzwei Zeilen", "trace"),
        outcome=AWKWARD,
        exit_code=3,
        exit_signal=9,
        forced=True,
        flags=frozenset({"unkillable"}),
        stop=StopMoments(START, "ann", "why", START, None, START + timedelta(days=1)),
    )


class SaveRules(Rules):
    """`save`, `get`, `history`."""

    def test_every_field_comes_back_as_it_was_saved(self, store: TaskStore) -> None:
        """A first save keeps each value exactly, whatever its script or depth."""
        task = full_task()
        put(store, None, task)
        assert replace(task, lease_owner=None) == read(store, task)

    def test_the_full_task_leaves_no_field_at_its_default(self) -> None:
        """The test above would say nothing of a field that it does not set."""
        of_lease = {"lease_until", "last_heartbeat_at", "progress", "usage"}
        plain, full = queued(), full_task()
        given = {field.name for field in fields(TaskSnapshot)} - of_lease
        same = {name for name in given if getattr(plain, name) == getattr(full, name)}
        assert same == {"id", "status", "version", "node", "created_at", "status_changed_at", "lease_owner"}

    def test_fields_without_a_value_come_back_without_one(self, store: TaskStore) -> None:
        """None stays None."""
        task = stored_queued(store)
        assert replace(task, lease_owner=None) == read(store, task)

    def test_a_later_save_writes_every_field_of_the_state(self, store: TaskStore) -> None:
        """What can change is replaced, not merged."""
        old = stored_queued(store)
        new = replace(full_task(), version=2, **{name: getattr(old, name) for name in IDENTITY}, attempt=old.attempt)
        put(store, old, new)
        assert replace(new, lease_owner=None) == read(store, new)

    def test_what_a_task_is_stays_as_first_saved(self, store: TaskStore) -> None:
        """Name, bucket, key, tags and the like are recorded once and never recomputed."""
        task = put(store, None, full_task())
        stranger = queued(version=2, name="other", attempt=task.attempt, bucket=1, bucket_key="else", node="else")
        put(store, task, replace(stranger, tags=frozenset({"other"}), created_at=START + TTL))
        found = read(store, task)
        assert {name: getattr(task, name) for name in IDENTITY} == {name: getattr(found, name) for name in IDENTITY}

    def test_times_of_other_zones_come_back_in_utc(self, store: TaskStore) -> None:
        """The instant counts, not how it was written."""
        local = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
        found = read(store, stored_queued(store, created_at=local))
        assert (START, timedelta(0)) == (found.created_at, found.created_at.utcoffset())

    def test_an_unknown_task_is_none(self, store: TaskStore) -> None:
        """get() does not raise for a task that is not there."""
        assert store.get(task_id(404)) is None

    def test_another_version_than_expected_is_a_conflict(self, store: TaskStore) -> None:
        """The second of two writers that read the same version is refused, and the first one's row stands."""
        task = stored_queued(store)
        put(store, task, start_of(task), lease=LeaseGrant(TERM, TTL))
        with pytest.raises(ConcurrencyConflict):
            put(store, task, moved(task, Status.CANCELLED), "another event")
        assert read(store, task).status is Status.STARTING

    def test_a_task_that_is_stored_cannot_be_stored_first(self, store: TaskStore) -> None:
        """Expected version 0 means that there is no row."""
        task = stored_queued(store)
        with pytest.raises(ConcurrencyConflict):
            put(store, None, task, "another event")

    def test_a_task_that_is_not_stored_cannot_be_updated(self, store: TaskStore) -> None:
        """A row that was pruned does not come back half."""
        task = queued()
        with pytest.raises(ConcurrencyConflict):
            put(store, task, start_of(task))
        assert store.get(task.id) is None

    @pytest.mark.parametrize("final", sorted(FINAL))
    def test_a_final_state_absorbs(self, store: TaskStore, final: Status) -> None:
        """Nothing leaves a final state, not even at the right version."""
        run = stored_run(store)
        end = put(store, run, moved(run, final))
        with pytest.raises(ConcurrencyConflict):
            put(store, end, moved(end, Status.RUNNING))
        assert read(store, end).status is final

    def test_another_term_cannot_write_a_leased_task(self, store: TaskStore) -> None:
        """A term that lost its run to another cannot write it any more."""
        run = stored_run(store)
        with pytest.raises(ConcurrencyConflict):
            put(store, run, moved(run, Status.FAILED, lease_owner=LATER_TERM))
        assert read(store, run).status is Status.STARTING

    def test_a_task_without_a_lease_takes_any_term(self, store: TaskStore) -> None:
        """Queued work is the node's, not the term's."""
        task = stored_queued(store)
        put(store, task, moved(task, Status.CANCELLED, lease_owner=LATER_TERM))
        assert read(store, task).status is Status.CANCELLED

    def test_another_attempt_than_stored_is_a_conflict(self, store: TaskStore) -> None:
        """A late word of an attempt that is over changes nothing."""
        run = stored_run(store)
        with pytest.raises(ConcurrencyConflict):
            put(store, run, moved(run, Status.RUNNING, attempt=2))

    def test_a_lease_belongs_to_the_attempt_after_the_stored_one(self, store: TaskStore) -> None:
        """With a lease the row has to stand one attempt lower."""
        run = stored_run(store)
        with pytest.raises(ConcurrencyConflict):
            put(store, run, moved(run, Status.RUNNING), lease=LeaseGrant(TERM, TTL))

    def test_a_version_may_jump(self, store: TaskStore) -> None:
        """Only equality with the expected version counts; the steps between are audited."""
        task = stored_queued(store)
        start = start_of(task)
        running = replace(moved(start, Status.RUNNING), version=9)
        steps = [step(task, start), step(start, running)]
        store.save(running, steps, expect_version=1, lease=LeaseGrant(TERM, TTL))
        assert read(store, task).version == 9
        assert [row.version for row in store.history(task.id)] == [1, 2, 9]

    def test_the_trail_is_kept_with_both_times(self, store: TaskStore, clock: SetClock) -> None:
        """A transition keeps the writer's time and gets the store's."""
        clock.advance(5)
        task = queued()
        written = replace(step(None, task), reason="weil 名")
        store.save(task, [written], expect_version=0)
        assert [replace(written, stored_at=clock.now)] == store.history(task.id)

    def test_the_trail_is_a_chain(self, store: TaskStore) -> None:
        """Each transition's source is the target of the one before."""
        trail = store.history(stored_end(store).id)
        assert [None, *(row.target for row in trail[:-1])] == [row.source for row in trail]

    def test_a_trail_with_a_gap_is_refused(self, store: TaskStore) -> None:
        """A transition that does not begin at the stored status is refused."""
        task = stored_queued(store)
        end = moved(task, Status.CANCELLED)
        wrong = replace(step(task, end), source=Status.RETRYING)
        with pytest.raises(Refused):
            store.save(end, [wrong], expect_version=1)
        assert read(store, task).version == 1

    def test_a_repeated_save_is_done(self, store: TaskStore) -> None:
        """After a lost answer the same save finds its own event in place."""
        task = queued()
        put(store, None, task)
        put(store, None, task)
        assert len(store.history(task.id)) == 1

    def test_a_repeated_save_is_done_even_when_the_task_has_moved_on(self, store: TaskStore) -> None:
        """Its event stays in place for good."""
        task = stored_queued(store)
        run = put(store, task, start_of(task), lease=LeaseGrant(TERM, TTL))
        end = put(store, run, moved(run, Status.FAILED))
        put(store, task, run, lease=LeaseGrant(TERM, TTL))
        assert replace(end, lease_owner=None) == read(store, task)
        assert store.leases() == []

    def test_the_same_version_by_another_event_is_a_conflict(self, store: TaskStore) -> None:
        """Two writers that made the same move are still two writers."""
        task = stored_queued(store)
        put(store, task, moved(task, Status.CANCELLED), "mine")
        with pytest.raises(ConcurrencyConflict):
            put(store, task, moved(task, Status.CANCELLED), "yours")

    def test_a_save_without_transitions_changes_facts_only(self, store: TaskStore) -> None:
        """A flag needs no audit row; a repeated call is done."""
        run = stored_run(store)
        flagged = moved(run, run.status, flags=frozenset({"unkillable"}))
        store.save(flagged, [], expect_version=run.version)
        store.save(flagged, [], expect_version=run.version)
        assert read(store, run).flags == {"unkillable"}
        assert len(store.history(run.id)) == 2

    def test_a_save_without_transitions_still_meets_other_writers(self, store: TaskStore) -> None:
        """The same version with other facts is a conflict."""
        run = stored_run(store)
        store.save(moved(run, run.status, flags=frozenset({"mine"})), [], expect_version=run.version)
        with pytest.raises(ConcurrencyConflict):
            store.save(moved(run, run.status, flags=frozenset({"yours"})), [], expect_version=run.version)

    def test_a_save_ends_its_commands(self, store: TaskStore, clock: SetClock) -> None:
        """The command's end is stored together with the state that it caused."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        put(store, run, moved(run, Status.STOPPING), completes=[Completion("command-1", "done", "as asked")])
        (command,) = store.commands(run.id)
        assert (clock.now, "done", "as asked") == (command.finished_at, command.outcome, command.detail)

    def test_one_of_many_threads_wins(self, store: TaskStore) -> None:
        """A store is safe to call from several threads, and versions decide."""
        task = stored_queued(store)
        verdicts: list[Exception | None] = []

        def attempt(number: int) -> None:
            save = save_of(task, moved(task, Status.CANCELLED), f"event-{number}")
            verdicts.extend(store.save_many([save]))

        threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [ConcurrencyConflict] * 7 == [type(verdict) for verdict in verdicts if verdict is not None]

    def test_a_save_never_writes_what_the_lease_knows(self, store: TaskStore) -> None:
        """Heartbeat, progress, usage and the lease's end in a snapshot are for reading only."""
        run = stored_run(store)
        signs = {"last_heartbeat_at": START, "progress": Progress(1), "usage": Usage(1.0), "lease_until": START}
        put(store, run, moved(run, Status.RUNNING, **signs))
        found = read(store, run)
        assert (found.last_heartbeat_at, found.progress, found.usage) == (None, None, None)
        assert found.lease_until == START + TTL

    def test_the_end_keeps_the_last_signs_of_the_run(self, store: TaskStore) -> None:
        """Heartbeat, progress and usage move from the lease to the task, and the lease is gone."""
        run = stored_run(store)
        beat = Beat(run.id, START, Progress(2, 3, "zwei"), Usage(1.5, 10, 20))
        store.touch(TERM, [beat])
        put(store, run, moved(run, Status.SUCCEEDED))
        found = read(store, run)
        assert (START, beat.progress, beat.usage) == (found.last_heartbeat_at, found.progress, found.usage)
        assert (found.lease_owner, found.lease_until, store.leases()) == (None, None, [])

    def test_a_new_attempt_shows_no_signs_of_the_former(self, store: TaskStore) -> None:
        """Heartbeat, progress and usage begin anew, also when the new attempt ends without any."""
        run = stored_run(store)
        store.touch(TERM, [Beat(run.id, START, Progress(2), Usage(1.0))])
        waiting = put(store, run, moved(run, Status.RETRYING))
        assert read(store, run).progress == Progress(2)
        again = put(store, waiting, start_of(waiting), lease=LeaseGrant(TERM, TTL))
        assert read(store, run).progress is None
        put(store, again, moved(again, Status.FAILED))
        assert (read(store, run).progress, read(store, run).last_heartbeat_at) == (None, None)

    def test_a_new_attempt_replaces_the_lease_of_the_former(self, store: TaskStore, clock: SetClock) -> None:
        """Also when the steps between were never stored."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)
        store.touch(TERM, [Beat(run.id, START)])
        clock.advance(10)
        waiting = moved(run, Status.RETRYING)
        again = start_of(waiting)
        steps = [step(run, waiting), step(waiting, again)]
        store.save(again, steps, expect_version=run.version, lease=LeaseGrant(TERM, TTL))
        (lease,) = store.leases()
        assert (0, clock.now + TTL) == (lease.renewals, lease.until)
        assert read(store, run).last_heartbeat_at is None

    def test_an_attempt_that_began_and_ended_between_two_saves_leaves_no_lease(self, store: TaskStore) -> None:
        """The lease says that a new attempt began, the status that it is over."""
        task = stored_queued(store)
        run = start_of(task)
        end = moved(run, Status.FAILED)
        steps = [step(task, run), step(run, end)]
        store.save(end, steps, expect_version=1, lease=LeaseGrant(TERM, TTL))
        assert (read(store, task).status, read(store, task).attempt, store.leases()) == (Status.FAILED, 1, [])

    def test_a_save_does_not_renew(self, store: TaskStore, clock: SetClock) -> None:
        """A writer that no longer renews does not look alive because it writes."""
        run = stored_run(store)
        clock.advance(10)
        put(store, run, moved(run, Status.RUNNING))
        assert read(store, run).lease_until == START + TTL


IDENTITY = (
    "id",
    "name",
    "node",
    "created_at",
    "bucket",
    "bucket_key",
    "tags",
    "trigger",
    "unique_key",
    "group_id",
    "run_timeout",
)
