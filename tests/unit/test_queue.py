"""Buckets take turns, limits hold, and nobody waits behind somebody who may not start."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.supervisor.queue import Limits, Place, TurnQueue


def queue_of(*waiting, node=100, per_bucket=None):
    """Entries are (id, bucket), then perhaps name, priority, limit of the definition."""
    queue = TurnQueue(Limits(node, per_bucket))
    for task_id, bucket, *more in waiting:
        name, priority, limit = (*more, *("n", 0, None)[len(more) :])
        queue.put(task_id, Place(bucket, name, limit), priority)
    return queue


def take_all(queue):
    return list(iter(queue.take, None))


class TestTurns:
    def test_buckets_take_turns(self):
        """However much waits in one of them."""
        queue = queue_of(("a1", 1), ("a2", 1), ("a3", 1), ("b1", 2), ("c1", 3))
        assert take_all(queue) == ["a1", "b1", "c1", "a2", "a3"]

    def test_work_without_a_key_takes_turns_too(self):
        """It counts as a bucket of its own."""
        assert take_all(queue_of(("a1", 1), ("a2", 1), ("k1", None), ("k2", None))) == ["a1", "k1", "a2", "k2"]

    def test_a_bucket_that_may_not_start_keeps_its_turn(self):
        """It did not have it yet."""
        queue = queue_of(("a1", 1), ("a2", 1), ("b1", 2), ("b2", 2), per_bucket=1)
        assert take_all(queue) == ["a1", "b1"]
        queue.free("b1")
        queue.free("a1")
        assert take_all(queue) == ["a2", "b2"]

    def test_priority_decides_within_a_bucket_then_age(self):
        """Never between buckets."""
        queue = queue_of(("old", 1), ("new", 1), ("urgent", 1, "n", 5), ("other", 2, "n", 99))
        assert take_all(queue) == ["urgent", "other", "old", "new"]

    def test_age_counts_across_names(self):
        """Each name has a heap of its own, which must not show."""
        assert take_all(queue_of(("a", 1, "x"), ("b", 1, "y"), ("c", 1, "x"))) == ["a", "b", "c"]

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40))
    def test_everything_that_waits_is_taken_once(self, entries):
        """In whatever buckets, under whatever names."""
        queue = queue_of(*((str(n), bucket, f"name-{name}") for n, (bucket, name) in enumerate(entries)))
        assert sorted(str(n) for n in range(len(entries))) == sorted(take_all(queue))
        assert (0, len(entries)) == (len(queue), queue.running)


class TestLimits:
    def test_the_node_has_a_limit(self):
        """One that ends makes room for one."""
        queue = queue_of(("a", 1), ("b", 2), ("c", 3), node=2)
        assert take_all(queue) == ["a", "b"]
        queue.free("a")
        assert take_all(queue) == ["c"]

    def test_each_bucket_has_a_limit(self):
        """A full one does not hold up the others."""
        queue = queue_of(("a1", 1), ("a2", 1), ("b1", 2), ("b2", 2), per_bucket=1)
        assert take_all(queue) == ["a1", "b1"]

    def test_a_definition_has_a_limit_on_the_node(self):
        """Across buckets."""
        queue = queue_of(("a1", 1, "x", 0, 1), ("b1", 2, "x", 0, 1))
        assert take_all(queue) == ["a1"]
        queue.free("a1")
        assert take_all(queue) == ["b1"]

    def test_a_definition_at_its_limit_does_not_hold_up_others(self):
        """Even from the head of the line, with a higher priority."""
        queue = queue_of(("x1", 1, "x", 9, 1), ("x2", 1, "x", 9, 1), ("y1", 1, "y"))
        assert take_all(queue) == ["x1", "y1"]

    def test_a_run_that_was_there_before_counts(self):
        """It was started by a former term."""
        queue = queue_of(("b", 1), per_bucket=1)
        queue.occupy("a", Place(1, "n"))
        assert (queue.take(), queue.running) == (None, 1)

    def test_a_slot_is_given_back_once(self):
        """A second time changes nothing."""
        queue = queue_of(("a", 1), ("b", 1), ("c", 1), per_bucket=1)
        assert queue.take() == "a"
        queue.free("a")
        queue.free("a")
        assert (take_all(queue), queue.running) == (["b"], 1)

    @given(st.data())
    def test_no_limit_is_ever_passed(self, data):
        """Whatever is put, taken, freed and removed."""
        queue = queue_of(node=4, per_bucket=2)
        places, running = {}, {}
        for n in range(data.draw(st.integers(1, 40))):
            places[str(n)] = Place(
                data.draw(st.integers(0, 2)), name := data.draw(st.sampled_from("xy")), "xy".find(name) + 1
            )
            queue.put(str(n), places[str(n)])
            if data.draw(st.booleans()) and (taken := queue.take()) is not None:
                running[taken] = places[taken]
            if running and data.draw(st.booleans()):
                queue.free(freed := data.draw(st.sampled_from(sorted(running))))
                del running[freed]
            names = Counter(place.name for place in running.values())
            buckets = Counter(place.bucket for place in running.values())
            assert len(running) <= 4
            assert names["x"] <= 1
            assert names["y"] <= 2
            assert max(buckets.values(), default=0) <= 2


class TestRemoval:
    def test_a_removed_task_is_not_taken(self):
        """It does not count as waiting either."""
        queue = queue_of(("a", 1), ("b", 1))
        queue.remove("a")
        assert (len(queue), take_all(queue)) == (1, ["b"])

    def test_a_removed_task_can_come_back(self):
        """At the end of the line, once."""
        queue = queue_of(("a", 1), ("b", 1))
        queue.remove("a")
        queue.put("a", Place(1, "n"))
        assert take_all(queue) == ["b", "a"]

    def test_one_that_waits_already_stays_where_it_is(self):
        """Put twice, taken once."""
        queue = queue_of(("a", 1), ("b", 1))
        queue.put("a", Place(1, "n"))
        assert take_all(queue) == ["a", "b"]

    def test_removing_a_stranger_changes_nothing(self):
        """Nor does freeing one."""
        queue = queue_of(("a", 1))
        queue.remove("b")
        queue.free("b")
        assert (len(queue), queue.running) == (1, 0)

    def test_an_empty_queue_gives_nothing(self):
        """Also after all of it was removed."""
        queue = queue_of(("a", 1))
        queue.remove("a")
        assert None is queue.take()


class Order(int):
    """A place in line that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        Order.compared += 1
        return int(self) < int(other)

    def __gt__(self, other):
        Order.compared += 1
        return int(self) > int(other)

    __eq__ = int.__eq__
    __hash__ = int.__hash__


class TestCost:
    @pytest.mark.parametrize("waiting", [100, 10_000])
    def test_taking_costs_hardly_more_when_much_waits(self, waiting):
        """The depth of a heap, and the number of names; never the length of the line."""
        queue = queue_of()
        queue._order = iter(map(Order, range(waiting)))
        for n in range(waiting):
            queue.put(str(n), Place(n % 4, f"name-{n % 3}"))
        Order.compared = 0
        assert len([queue.take() for _ in range(20)]) == 20
        assert 20 * 30 > Order.compared > 0
