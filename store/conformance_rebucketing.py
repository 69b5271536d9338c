"""What every store promises about a change of the number of buckets."""
# ruff: noqa: PLR2004 - the numbers are the cases

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chong.store.buckets import BucketPolicy
from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, Rebucketed, Refused
from chong.store.model import HoldScope, SharedHold, TaskSnapshot
from chong.store.rebucketing import Rebucketing
from chong.store.specimens import (
    NODE,
    TERM,
    SetClock,
    moved,
    node_record,
    put,
    queued,
    read,
    save_of,
    stored_end,
    stored_queued,
    stored_run,
    term_record,
)
from chong.store.states import Status

OLD, NEW = BucketPolicy(64), BucketPolicy(96)
STAYS = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) == NEW.bucket_of(key))
MOVES = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) != NEW.bucket_of(key))


def keyed(key: str) -> dict[str, Any]:
    return {"bucket": OLD.bucket_of(key), "bucket_key": key}


def rebucket(store: TaskStore, number: int = 96, event_id: str = "rebucket.1", **more: Any) -> Rebucketing:
    return store.rebucket(number, event_id, actor="olga", **more)


class RebucketRules(Rules):
    """`rebucket`, `rebucketings`."""

    @pytest.fixture
    def old(self, store: TaskStore, clock: SetClock) -> TaskStore:
        """64 buckets, and one node that has ended."""
        store.record_num_buckets(64)
        store.register_term(term_record(), node_record())
        clock.advance(1)
        store.end_term(TERM)
        return store

    def test_waiting_tasks_go_to_the_buckets_of_their_keys(self, old: TaskStore) -> None:
        """Nothing else of them changes; what has no key, or stays, is left alone."""
        first = stored_queued(old, 1, **keyed(MOVES))
        again = stored_run(old, 2, **keyed(MOVES))
        again = put(old, again, moved(again, Status.RETRYING))
        others = [stored_queued(old, 3, **keyed(STAYS)), stored_queued(old, 4)]
        before = {task.id: read(old, task) for task in (first, again, *others)}
        done = rebucket(old)
        for task in (first, again):
            assert replace(before[task.id], bucket=NEW.bucket_of(MOVES)) == read(old, task)
        assert [before[task.id] for task in others] == [read(old, task) for task in others]
        assert (done.before, done.after, done.waiting, done.moved) == (64, 96, 3, 2)
        assert old.deployment().num_buckets == 96

    def test_a_new_task_with_a_bucket_of_the_old_number_is_not_stored(self, old: TaskStore) -> None:
        """Nobody would run it there; what has no bucket, and what was stored before, is written like anything else."""
        waiting = stored_queued(old, 1, **keyed(MOVES))
        rebucket(old)
        waiting = read(old, waiting)
        late, keyless = queued(2, **keyed(MOVES)), queued(3)
        cancelled = moved(waiting, Status.CANCELLED, ended_at=waiting.created_at)
        saves = [save_of(None, late), save_of(None, keyless), save_of(waiting, cancelled)]
        verdicts = old.save_many(saves, num_buckets=64)
        assert [type(verdict) for verdict in verdicts] == [Rebucketed, type(None), type(None)]
        assert str(verdicts[0]) == "number of buckets: expected 96 since a rebucket, got 64"
        assert old.get(late.id) is None
        assert old.save_many([save_of(None, queued(2, **keyed(STAYS)))], num_buckets=96) == [None]

    def test_a_new_task_that_was_stored_before_the_change_is_known_by_its_event(self, old: TaskStore) -> None:
        """Only the answer was lost: it has its new bucket by now."""
        first = [save_of(None, queued(1, **keyed(MOVES)))]
        assert old.save_many(first, num_buckets=64) == [None]
        rebucket(old)
        assert old.save_many(first, num_buckets=64) == [None]

    def test_before_a_number_is_recorded_any_bucket_will_do(self, store: TaskStore) -> None:
        """There is nothing yet that it could contradict."""
        assert store.save_many([save_of(None, queued(1, bucket=3, bucket_key="k"))], num_buckets=64) == [None]

    def test_a_task_that_ended_keeps_the_bucket_in_which_it_ran(self, old: TaskStore) -> None:
        """It is history."""
        task = stored_end(old, 1, **keyed(MOVES))
        assert rebucket(old).waiting == 0
        assert read(old, task).bucket == OLD.bucket_of(MOVES)

    def test_a_task_that_moves_says_so(self, old: TaskStore, clock: SetClock) -> None:
        """Who, when, whence and why; one that stays says nothing."""
        goes, stays = stored_queued(old, 1, **keyed(MOVES)), stored_queued(old, 2, **keyed(STAYS))
        rebucket(old, reason="more nodes")
        (note,) = old.notes(goes.id)
        assert (note.kind, note.actor, note.at, note.event_id) == ("rebucketed", "olga", clock.now, "rebucket.1")
        place = f"from bucket {OLD.bucket_of(MOVES)} of 64 to {NEW.bucket_of(MOVES)} of 96"
        assert note.detail == f"{place}: more nodes"
        assert old.notes(stays.id) == []

    def test_each_change_is_on_record(self, old: TaskStore, clock: SetClock) -> None:
        """Newest first."""
        assert old.rebucketings() == []
        first = rebucket(old, reason="more nodes")
        assert (first.at, first.by, first.reason) == (clock.now, "olga", "more nodes")
        clock.advance(5)
        second = rebucket(old, 8, "rebucket.2")
        assert (second.before, second.after, second.reason) == (96, 8, None)
        assert [second, first] == old.rebucketings()
        assert old.survey(still=timedelta(0)).rebucketed_at == second.at

    def test_what_was_declared_is_dropped(self, old: TaskStore) -> None:
        """A number of the old kind means nothing any more; nodes that were cut off see that something changed."""
        old.declare_buckets(NODE, frozenset({1, 2}))
        known = old.holds().revision
        rebucket(old)
        assert old.declarations() == []
        assert old.changed_holds(known) is not None

    def test_a_change_of_which_the_answer_was_lost_is_not_made_twice(self, old: TaskStore) -> None:
        """Not even when somebody has changed the number again."""
        stored_queued(old, 1, **keyed(MOVES))
        first = rebucket(old)
        assert rebucket(old) == first
        rebucket(old, 8, "rebucket.2")
        assert rebucket(old) == first
        assert (old.deployment().num_buckets, len(old.rebucketings())) == (8, 2)

    def test_the_number_that_stands_puts_strays_right(self, old: TaskStore) -> None:
        """What a node that was cut off has stored by another number, for instance."""
        stray = stored_queued(old, 1, bucket=(OLD.bucket_of(MOVES) + 1) % 64, bucket_key=MOVES)
        assert rebucket(old, 64).moved == 1
        assert read(old, stray).bucket == OLD.bucket_of(MOVES)

    def test_thousands_move_at_once(self, old: TaskStore) -> None:
        """Piece by piece, in one transaction; the progress is told."""
        tasks = [stored_queued(old, number, **keyed(MOVES)) for number in range(1, 1202)]
        told: list[tuple[int, int]] = []
        assert rebucket(old, on_progress=lambda seen, waiting: told.append((seen, waiting))).moved == 1201
        assert told == [(1000, 1201), (1201, 1201)]
        assert {read(old, task).bucket for task in (tasks[0], tasks[999], tasks[-1])} == {NEW.bucket_of(MOVES)}

    def test_what_fails_in_the_middle_has_changed_nothing(self, old: TaskStore) -> None:
        """A store has the old number with the old buckets, or the new one with the new."""
        old.declare_buckets(NODE, frozenset({1}))
        task = stored_queued(old, 1, **keyed(MOVES))

        def die(*_: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rebucket(old, on_progress=die)
        self._check_untouched(old, task)
        assert len(old.declarations()) == 1
        assert rebucket(old).moved == 1

    def test_a_live_node_keeps_its_number(self, old: TaskStore, clock: SetClock) -> None:
        """It counts by it; drained or not."""
        task = stored_queued(old, 1, **keyed(MOVES))
        old.register_term(term_record("node-b.1", "node-b"), node_record("node-b.1", "node-b"))
        old.place_hold(SharedHold(scope=HoldScope.NODE, target="node-b", by="eve"))
        with pytest.raises(Refused, match="expected no live node, got node-b"):
            rebucket(old)
        self._check_untouched(old, task)
        clock.advance(31)
        assert rebucket(old).moved == 1

    def test_an_open_run_keeps_the_number(self, old: TaskStore) -> None:
        """Whoever comes back for it goes by its bucket."""
        task, _ = stored_queued(old, 1, **keyed(MOVES)), stored_run(old, 2)
        with pytest.raises(Refused, match="expected no open run, got 1"):
            rebucket(old)
        self._check_untouched(old, task)

    def test_a_held_bucket_keeps_the_number(self, old: TaskStore) -> None:
        """What was meant by it would start; a name is a name."""
        task = stored_queued(old, 1, **keyed(MOVES))
        for scope, target in ((HoldScope.NAME, "mail"), (HoldScope.BUCKET, "7")):
            old.place_hold(SharedHold(scope=scope, target=target, by="eve"))
        with pytest.raises(Refused, match="expected no held bucket, got 7"):
            rebucket(old)
        self._check_untouched(old, task)
        old.lift_hold(HoldScope.BUCKET, "7")
        assert rebucket(old).moved == 1

    def test_without_a_number_there_is_nothing_to_change(self, store: TaskStore) -> None:
        """The first one is recorded, not changed."""
        with pytest.raises(Refused, match="--num-buckets N migrate"):
            rebucket(store)
        assert store.deployment().num_buckets is None

    @pytest.mark.parametrize("number", [0, -1, 65_537])
    def test_a_number_out_of_range_is_none(self, old: TaskStore, number: int) -> None:
        """And nothing is touched."""
        with pytest.raises(ConfigurationError, match="expected 1 to 65536"):
            rebucket(old, number)
        assert old.deployment().num_buckets == 64

    def _check_untouched(self, store: TaskStore, task: TaskSnapshot) -> None:
        assert read(store, task).bucket == OLD.bucket_of(MOVES)
        assert (store.deployment().num_buckets, store.rebucketings(), store.notes(task.id)) == (64, [], [])
