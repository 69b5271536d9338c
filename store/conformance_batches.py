"""What every store promises about tasks that are written together: each is judged by itself."""
# ruff: noqa: PLR2004 - the numbers are the cases

from dataclasses import replace

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, Refused, UniqueKeyTaken
from chong.store.model import (
    Completion,
)
from chong.store.specimens import (
    LATER_TERM,
    moved,
    put,
    queued,
    read,
    request,
    save_of,
    step,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
)
from chong.store.states import Status


class BatchRules(Rules):
    """`save_many`, and the unique keys that one task at a time may hold."""

    def test_a_refused_save_does_not_touch_the_others(self, store: TaskStore) -> None:
        """Each save of a batch has its own verdict, in order."""
        stored = stored_queued(store, 2)
        saves = [
            save_of(None, queued(1)),
            save_of(None, stored, "another event"),
            save_of(None, queued(3)),
        ]
        first, second, third = store.save_many(saves)
        assert (first, third) == (None, None)
        assert isinstance(second, ConcurrencyConflict)
        assert store.get(task_id(3)) is not None

    def test_a_refused_save_leaves_nothing_behind(self, store: TaskStore) -> None:
        """No row, no lease, no trail, no end of a command."""
        run = stored_run(store)
        store.submit_command(request(1, run))
        stray = save_of(run, moved(run, Status.STOPPED, lease_owner=LATER_TERM))
        store.save_many([replace(stray, completes=(Completion("command-1"),))])
        assert len(store.history(run.id)) == 2
        assert len(store.leases()) == 1
        assert store.commands(run.id)[0].finished_at is None

    def test_a_value_that_cannot_be_stored_refuses_its_own_save(self, store: TaskStore) -> None:
        """NaN is no JSON: one task's poison must not stop the others."""
        saves = [save_of(None, queued(1, outcome=float("nan"))), save_of(None, queued(2))]
        poisoned, clean = store.save_many(saves)
        assert isinstance(poisoned, Refused)
        assert clean is None
        assert (None, queued(2).id) == (store.get(task_id(1)), read(store, queued(2)).id)

    def test_a_trail_that_cannot_be_stored_leaves_no_task(self, store: TaskStore) -> None:
        """Text that is no Unicode is found late, when the task itself is written already."""
        task = queued()
        half = replace(step(None, task), reason="\ud800")
        with pytest.raises(Refused):
            store.save(task, [half], expect_version=0)
        assert (store.get(task.id), store.history(task.id)) == (None, [])

    def test_a_task_that_occurs_twice_in_a_batch_is_written_once(self, store: TaskStore) -> None:
        """Its second save meets the first one as a stranger's."""
        task = stored_queued(store)
        saves = [save_of(task, moved(task, Status.CANCELLED), event) for event in ("one", "two")]
        first, second = store.save_many(saves)
        assert first is None
        assert isinstance(second, ConcurrencyConflict)
        assert [step.event_id for step in store.history(task.id)][1:] == ["one"]

    def test_a_task_that_occurs_twice_in_a_batch_is_judged_by_its_first_save(self, store: TaskStore) -> None:
        """Also when that is refused: what a batch comes to is one thing over every database."""
        task = queued()
        refused = replace(save_of(None, task), expect_version=7)
        verdicts = store.save_many([refused, save_of(None, task)])
        assert [ConcurrencyConflict] * 2 == [type(verdict) for verdict in verdicts]
        assert "occurs twice" in str(verdicts[1])
        assert store.get(task.id) is None

    def test_an_empty_batch_is_nothing(self, store: TaskStore) -> None:
        """No saves, no verdicts."""
        assert store.save_many([]) == []

    def test_a_unique_key_admits_one_unfinished_task(self, store: TaskStore) -> None:
        """The second task with the key is refused and told who holds it."""
        holder = stored_queued(store, 1, unique_key="once")
        with pytest.raises(UniqueKeyTaken) as refused:
            stored_queued(store, 2, unique_key="once")
        assert (holder.id, "once") == (refused.value.holder, refused.value.unique_key)
        assert store.get(task_id(2)) is None

    def test_a_unique_key_is_free_after_the_end(self, store: TaskStore) -> None:
        """A final task holds nothing."""
        stored_end(store, 1, unique_key="once")
        stored_queued(store, 2, unique_key="once")
        assert store.get(task_id(2)) is not None

    def test_a_unique_key_is_free_within_the_batch_that_ends_its_holder(self, store: TaskStore) -> None:
        """The saves of a batch count in their order."""
        run = stored_run(store, 1, unique_key="once")
        end = save_of(run, moved(run, Status.FAILED))
        heirs = [save_of(None, queued(number, unique_key="once")) for number in (2, 3)]
        ended, first, second = store.save_many([end, *heirs])
        assert (ended, first) == (None, None)
        assert isinstance(second, UniqueKeyTaken)

    def test_a_task_may_save_itself_while_it_holds_its_unique_key(self, store: TaskStore) -> None:
        """A key does not stand in its holder's own way."""
        run = stored_run(store, 1, unique_key="once")
        put(store, run, moved(run, Status.RUNNING))
        assert read(store, run).status is Status.RUNNING
