"""Nothing that the store has not got is lost, doubled or put out of order."""

from collections import deque
from dataclasses import replace
from datetime import timedelta

import pytest

from chong.store.errors import ConcurrencyConflict, Refused
from chong.store.memory import InMemoryTaskStore
from chong.store.model import Beat, Completion, LeaseGrant, Note, Progress
from chong.store.specimens import START, TERM, moved, queued, read, start_of, step
from chong.store.states import Status
from chong.supervisor import outbox as outbox_module
from chong.supervisor.events import SaveState
from chong.supervisor.outbox import BATCH, Outbox

LEASE = LeaseGrant(TERM, timedelta(seconds=30))
TASK = queued()
STARTING = start_of(TASK)
RUNNING = moved(STARTING, Status.RUNNING)
PAUSING = moved(RUNNING, Status.PAUSING)


def state(old, new, **more):
    return SaveState(new, (step(old, new),), **more)


def outbox_with(*saves):
    outbox = Outbox(LEASE)
    for save in saves:
        outbox.add(save)
    return outbox


def settle(outbox, batch, verdict=None):
    batch.verdicts = [verdict] * len(batch.saves)
    outbox.settle(batch)


def sent(outbox, *, beats=False):
    batch = outbox.take(beats=beats)
    settle(outbox, batch)
    return batch


class Watched(deque):
    """Counts how many of its items were looked at."""

    looked = 0

    def __iter__(self):
        for item in super().__iter__():
            self.looked += 1
            yield item


class TestOrder:
    def test_states_that_wait_are_joined(self):
        """The newest snapshot, with all that led to it."""
        outbox = outbox_with(state(None, TASK), state(TASK, moved(TASK, Status.CANCELLED)))
        (save,) = outbox.take(beats=False).saves
        assert (save.expect_version, save.snapshot.version, [m.version for m in save.transitions]) == (0, 2, [1, 2])

    def test_a_start_is_not_joined_to_what_was_before(self):
        """Its lease belongs to its own attempt."""
        outbox = outbox_with(state(None, TASK), state(TASK, STARTING, starts=True))
        (first,), (second,) = sent(outbox).saves, sent(outbox).saves
        assert (first.lease, first.expect_version) == (None, 0)
        assert (second.lease, second.expect_version) == (LEASE, 1)

    def test_what_follows_a_start_joins_it(self):
        """With its lease."""
        outbox = outbox_with(state(TASK, STARTING, starts=True), state(STARTING, moved(STARTING, Status.STOPPING)))
        (save,) = outbox.take(beats=False).saves
        assert (save.lease, save.snapshot.status, len(outbox)) == (LEASE, Status.STOPPING, 1)

    def test_what_is_under_way_is_left_alone(self):
        """A later state goes with the next batch."""
        outbox = outbox_with(state(None, TASK))
        first = outbox.take(beats=False)
        outbox.add(state(TASK, moved(TASK, Status.CANCELLED)))
        assert ([save.snapshot for save in first.saves], len(outbox)) == ([TASK], 2)
        settle(outbox, first)
        assert [save.expect_version for save in outbox.take(beats=False).saves] == [1]

    def test_an_outage_changes_nothing_of_what_was_under_way(self):
        """It may be in place already, and its event id must find itself."""
        outbox = outbox_with(state(None, TASK))
        first = outbox.take(beats=False)
        outbox.put_back(first)
        outbox.add(state(TASK, moved(TASK, Status.CANCELLED)))
        assert first.saves == outbox.take(beats=False).saves

    def test_what_the_store_had_is_expected(self):
        """Read or adopted."""
        outbox = Outbox(LEASE)
        outbox.know_stored(TASK.id, 3)
        outbox.add(state(STARTING, replace(RUNNING, version=4)))
        assert [save.expect_version for save in outbox.take(beats=False).saves] == [3]

    def test_command_ends_are_joined_too(self):
        """They go with the save that carries their intent."""
        first, second = Completion("command-1"), Completion("command-2")
        cancelled = state(TASK, moved(TASK, Status.CANCELLED), completes=(second,))
        outbox = outbox_with(state(None, TASK, completes=(first,)), cancelled)
        assert (first, second) == outbox.take(beats=False).saves[0].completes

    def test_a_batch_has_a_bound(self):
        """And every task its turn."""
        outbox = outbox_with(*(state(None, queued(number)) for number in range(BATCH + 50)))
        batches = [len(sent(outbox).saves) for _ in range(3)]
        assert batches == [BATCH, 50, 0]

    def test_a_batch_looks_at_no_more_than_it_takes(self):
        """After an outage a hundred thousand may wait, and each batch would copy them all."""
        outbox = Outbox(LEASE)
        outbox._notes, outbox._completions = Watched(), Watched()
        for number in range(3 * BATCH):
            outbox.add_note(Note(task_id=TASK.id, kind="signalled", at=START, actor=TERM, event_id=f"event-{number}"))
            outbox.add_completion(Completion(f"command-{number}"))
        batch = sent(outbox)
        assert (len(batch.notes), len(batch.completions)) == (BATCH, BATCH)
        assert outbox._notes.looked <= BATCH + 1 >= outbox._completions.looked

    def test_tasks_with_more_to_say_go_behind(self):
        """None that is busy keeps the others waiting."""
        tasks = [queued(number) for number in range(BATCH + 1)]
        outbox = outbox_with(*(state(None, task) for task in tasks))
        batch = outbox.take(beats=False)
        for task in tasks[:BATCH]:
            outbox.add(state(task, moved(task, Status.CANCELLED)))
        settle(outbox, batch)
        assert tasks[BATCH].id == outbox.take(beats=False).saves[0].snapshot.id


class TestRefusals:
    def test_a_refused_save_is_dropped_with_what_follows(self):
        """A second writer exists: the rest would be refused too."""
        outbox = outbox_with(state(TASK, STARTING, starts=True))
        batch = outbox.take(beats=False)
        outbox.add(state(STARTING, RUNNING))
        settle(outbox, batch, ConcurrencyConflict(TASK.id, "another version"))
        assert (len(outbox), bool(outbox)) == (0, False)

    def test_a_refusal_does_not_touch_others(self):
        """Each task has its own verdict."""
        other = queued(2)
        outbox = outbox_with(state(None, TASK), state(None, other))
        batch = outbox.take(beats=False)
        batch.verdicts = [ConcurrencyConflict(TASK.id, "another version"), None]
        outbox.settle(batch)
        outbox.add(state(other, moved(other, Status.CANCELLED)))
        assert [save.expect_version for save in outbox.take(beats=False).saves] == [1]

    def test_giving_a_task_up_drops_its_writes(self):
        """Its beats too."""
        outbox = outbox_with(state(STARTING, RUNNING))
        outbox.add_beat(Beat(TASK.id, START))
        outbox.give_up(TASK.id)
        assert (len(outbox), bool(outbox)) == (0, False)

    def test_a_task_may_be_given_up_while_its_save_is_under_way(self):
        """Whatever comes of that save."""
        outbox = outbox_with(state(STARTING, RUNNING))
        batch = outbox.take(beats=False)
        outbox.give_up(TASK.id)
        settle(outbox, batch)
        assert (len(outbox), bool(outbox)) == (0, False)

    def test_an_old_batch_does_not_settle_a_new_life(self):
        """The task was given up and taken in anew while the batch was out."""
        outbox = outbox_with(state(STARTING, RUNNING))
        batch = outbox.take(beats=False)
        outbox.give_up(TASK.id)
        outbox.add(state(None, TASK))
        settle(outbox, batch)
        assert [save.snapshot for save in outbox.take(beats=False).saves] == [TASK]

    def test_a_full_outbox_takes_no_new_work(self, monkeypatch):
        """States of what is accepted are never refused."""
        monkeypatch.setattr(outbox_module, "BOUND", 1)
        outbox = outbox_with(state(None, TASK))
        with pytest.raises(Refused, match=r"\Aoutbox: expected fewer than 1 unsent writes, "):
            outbox.make_room()
        outbox.add(state(None, queued(2)))
        assert len(outbox) == 2


class TestBesides:
    NOTE = Note(task_id=TASK.id, kind="odd_exit", at=START, actor=TERM, event_id="event")

    def test_notes_and_ends_stay_until_they_are_written(self):
        """An outage offers them again."""
        outbox = Outbox(LEASE)
        outbox.add_note(self.NOTE)
        outbox.add_completion(Completion("command-1"))
        outbox.put_back(outbox.take(beats=False))
        batch = outbox.take(beats=False)
        assert ([self.NOTE], [Completion("command-1")], 2) == (batch.notes, batch.completions, len(outbox))
        settle(outbox, batch)
        assert len(outbox) == 0

    def test_what_came_meanwhile_is_kept(self):
        """Only what was handed out is settled."""
        outbox = Outbox(LEASE)
        outbox.add_note(self.NOTE)
        batch = outbox.take(beats=False)
        outbox.add_note(later := replace(self.NOTE, event_id="later"))
        settle(outbox, batch)
        assert [later] == outbox.take(beats=False).notes

    def test_the_latest_beat_of_a_task_counts(self):
        """They are not counted as writes that wait."""
        outbox = Outbox(LEASE)
        for done in (1, 2):
            outbox.add_beat(Beat(TASK.id, START, Progress(done)))
        assert (len(outbox), bool(outbox)) == (0, True)
        assert [Progress(2)] == [beat.progress for beat in outbox.take(beats=True).beats]

    def test_beats_wait_when_they_are_not_wanted(self):
        """They go at a pace of their own."""
        outbox = Outbox(LEASE)
        outbox.add_beat(Beat(TASK.id, START))
        assert (outbox.take(beats=False).beats, len(outbox.take(beats=True).beats)) == ([], 1)

    def test_a_newer_beat_outlives_an_outage(self):
        """The older one is dropped."""
        outbox = Outbox(LEASE)
        outbox.add_beat(Beat(TASK.id, START, Progress(1)))
        batch = outbox.take(beats=True)
        outbox.add_beat(Beat(TASK.id, START, Progress(2)))
        outbox.put_back(batch)
        assert [Progress(2)] == [beat.progress for beat in outbox.take(beats=True).beats]

    def test_a_beat_is_dropped_with_the_end_of_its_run(self):
        """There is no lease left that would take it."""
        outbox = outbox_with(state(RUNNING, moved(RUNNING, Status.SUCCEEDED)))
        outbox.add_beat(Beat(TASK.id, START))
        sent(outbox)
        assert False is bool(outbox)

    def test_an_empty_outbox_has_an_empty_batch(self):
        """There is nothing to carry."""
        assert False is bool(Outbox(LEASE).take(beats=True))


class TestWithAStore:
    def test_a_batch_written_twice_stands_once(self):
        """Its answer was lost."""
        with InMemoryTaskStore() as store:
            outbox = outbox_with(state(None, TASK), state(TASK, STARTING, starts=True), state(STARTING, RUNNING))
            while batch := outbox.take(beats=False):
                store.save_many(batch.saves)
                outbox.put_back(batch)
                batch = outbox.take(beats=False)
                batch.verdicts = store.save_many(batch.saves)
                assert batch.verdicts == [None]
                outbox.settle(batch)
            assert read(store, TASK).status == Status.RUNNING
            assert [moved_.version for moved_ in store.history(TASK.id)] == [1, 2, 3]
