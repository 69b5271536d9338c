"""What every store promises about removing what is old."""
# ruff: noqa: PLR2004 - the numbers are the cases

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.model import Note, TaskSnapshot
from chong.store.query import TaskQuery
from chong.store.specimens import (
    LATER_TERM,
    NODE,
    START,
    TERM,
    SetClock,
    moved,
    node_record,
    put,
    request,
    stored_end,
    stored_queued,
    stored_run,
    term_record,
)
from chong.store.states import Status

MINUTE = timedelta(minutes=1)
NOW = timedelta(0)


def numbers(tasks: Iterable[TaskSnapshot]) -> list[int]:
    return [int(task.id[:8], 16) for task in tasks]


def prune(store: TaskStore, older_than: timedelta) -> int:
    return len(store.prune(store.prunable(older_than)))


def note(task: TaskSnapshot, event_id: str = "1") -> Note:
    return Note(task_id=task.id, kind="late_result", at=START, actor="a", event_id=event_id)


class PruneRules(Rules):
    """`prunable`, `count_prunable`, `prune`, `prune_traces`."""

    def test_a_record_has_all_that_is_kept_of_a_task(self, store: TaskStore, clock: SetClock) -> None:
        """Whoever archives it misses nothing."""
        task = stored_end(store, 1, tags=frozenset({"io"}))
        store.append([note(task)])
        store.submit_command(request(1, task))
        clock.advance(1)
        (record,) = store.prunable(NOW)
        assert record.task == store.get(task.id)
        assert list(record.history) == store.history(task.id)
        assert list(record.notes) == store.notes(task.id)
        assert list(record.commands) == store.commands(task.id)

    def test_pruning_removes_a_task_with_all_that_is_its_own(self, store: TaskStore, clock: SetClock) -> None:
        """Trail, notes, commands and tags go with it."""
        task = stored_end(store, 1, tags=frozenset({"io"}))
        store.append([note(task)])
        store.submit_command(request(1, task))
        clock.advance(100)
        assert prune(store, timedelta(seconds=99)) == 1
        assert (
            store.get(task.id),
            store.history(task.id),
            store.notes(task.id),
            store.commands(task.id),
        ) == (None, [], [], [])
        assert store.query(TaskQuery(tags=frozenset({"io"}))) == []

    def test_what_is_open_or_young_is_not_prunable(self, store: TaskStore, clock: SetClock) -> None:
        """Whatever its age, unfinished work stays."""
        clock.advance(100)
        stored_queued(store, 1)
        stored_run(store, 2)
        stored_end(store, 3, ended_at=START + timedelta(seconds=50))
        stored_end(store, 4)
        assert store.count_prunable(MINUTE) == 1
        assert numbers(record.task for record in store.prunable(MINUTE)) == [4]

    def test_what_ended_first_is_prunable_first(self, store: TaskStore, clock: SetClock) -> None:
        """A limit leaves the younger ones; the count knows no limit."""
        for number in (1, 2, 3):
            stored_end(store, number, ended_at=START - number * MINUTE)
        clock.advance(1)
        assert numbers(record.task for record in store.prunable(NOW, limit=2)) == [3, 2]
        assert store.count_prunable(NOW) == 3

    def test_a_task_of_which_more_is_stored_by_now_stays_whole(self, store: TaskStore, clock: SetClock) -> None:
        """A note that came after the record was archived is not removed unseen; the next turn takes both."""
        first, second = stored_end(store, 1), stored_end(store, 2)
        clock.advance(1)
        records = store.prunable(NOW)
        store.append([note(second)])
        assert store.prune(records) == {first.id}
        assert store.get(first.id) is None
        assert len(store.history(second.id)) == 3
        assert prune(store, NOW) == 1

    def test_a_command_that_was_answered_since_keeps_its_task(self, store: TaskStore, clock: SetClock) -> None:
        """Not only new rows count, but also what became of the old ones."""
        task = stored_run(store, 1)
        store.submit_command(request(1, task))
        put(store, task, moved(task, Status.SUCCEEDED, ended_at=START))
        clock.advance(1)
        records = store.prunable(NOW)
        store.complete_command("command-1", "too_late")
        assert store.prune(records) == set()
        assert [command.outcome for command in store.commands(task.id)] == ["too_late"]

    def test_pruning_twice_removes_once(self, store: TaskStore, clock: SetClock) -> None:
        """Two nodes may prune the same store."""
        task = stored_end(store, 1)
        clock.advance(1)
        records = store.prunable(NOW)
        assert [store.prune(records), store.prune(records), store.prune([])] == [{task.id}, set(), set()]

    def test_unfinished_work_is_never_pruned(self, store: TaskStore, clock: SetClock) -> None:
        """Not even when its record is right."""
        stored_end(store, 1)
        run = stored_run(store, 2)
        clock.advance(1)
        (record,) = store.prunable(NOW)
        open_one = replace(record, task=run, history=tuple(store.history(run.id)))
        assert store.prune([open_one]) == set()
        assert store.get(run.id) is not None

    def test_a_pruned_unique_key_can_be_used_again(self, store: TaskStore, clock: SetClock) -> None:
        """Nothing of the task remains."""
        stored_end(store, 1, unique_key="once")
        clock.advance(1)
        prune(store, NOW)
        stored_queued(store, 1, unique_key="once")
        assert numbers(store.query(TaskQuery())) == [1]

    def test_an_old_firing_goes_but_never_the_newest_of_its_schedule(self, store: TaskStore, clock: SetClock) -> None:
        """A schedule that comes to life again must not fire its last instant twice."""
        for key in ("k", None):
            for minute in (0, 1):
                store.claim_firing("a", key, START + minute * MINUTE, node=NODE, event_id=f"{key}{minute}")
        clock.advance(1)
        assert store.prune_traces(NOW) == 2
        for key in ("k", None):
            assert store.claim_firing("a", key, START + MINUTE, node=NODE, event_id="again") is False
            assert store.claim_firing("a", key, START, node=NODE, event_id="again") is True

    def test_a_young_firing_stays(self, store: TaskStore, clock: SetClock) -> None:
        """By the time when it was claimed, which may be later than what it was planned for."""
        clock.advance(3600)
        for minute in (0, 1):
            store.claim_firing("a", "k", START + minute * MINUTE, node=NODE, event_id=str(minute))
        assert store.prune_traces(MINUTE) == 0

    def test_a_term_goes_when_nothing_refers_to_it(self, store: TaskStore, clock: SetClock) -> None:
        """The current one of each node, and one that holds a lease, are needed to judge by."""
        store.register_term(term_record("node-a.0"), node_record("node-a.0"))
        store.register_term(term_record(TERM), node_record(TERM))
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        stored_run(store, lease_owner=TERM)
        clock.advance(1)
        assert store.prune_traces(MINUTE) == 0
        assert store.prune_traces(NOW) == 1
        assert {record.term for record in store.terms(NODE)} == {TERM, LATER_TERM}

    def test_traces_go_up_to_a_limit(self, store: TaskStore, clock: SetClock) -> None:
        """Of each kind."""
        for minute in range(5):
            store.claim_firing("a", None, START + minute * MINUTE, node=NODE, event_id=str(minute))
        clock.advance(1)
        assert [store.prune_traces(NOW, limit=3), store.prune_traces(NOW, limit=3)] == [3, 1]
