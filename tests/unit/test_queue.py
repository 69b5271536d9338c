"""Buckets take turns, limits hold, and nobody waits behind somebody who may not start."""

import itertools
from collections import Counter, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chong.supervisor.line import Gate
from chong.supervisor.queue import NODE, Limits, Place, TurnQueue


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


class TestLimitsPerKey:
    def test_a_definition_has_a_limit_for_each_key(self):
        """One customer's backlog runs one by one, others' beside it."""
        queue = keyed_queue("a", "a", "b", "a", "b")
        assert take_all(queue) == ["0-a", "2-b"]
        queue.free("0-a")
        assert take_all(queue) == ["1-a"]

    def test_a_key_at_its_limit_does_not_hold_up_others(self):
        """Even from the head of the line, with a higher priority."""
        queue = keyed_queue("a", "a", "b", priorities=(9, 9, 0))
        assert take_all(queue) == ["0-a", "2-b"]

    def test_another_definition_may_use_the_same_key(self):
        """The limit is the definition's."""
        queue = keyed_queue("a", "a")
        queue.put("other", Place(1, "m", None, "a", 1))
        assert take_all(queue) == ["0-a", "other"]

    def test_work_without_a_key_is_not_bound_by_it(self):
        """There is no key to be limited."""
        assert take_all(keyed_queue(None, None)) == ["0-None", "1-None"]

    def test_both_limits_hold_together(self):
        """Two at a time, and one for each key."""
        queue = keyed_queue("a", "a", "b", "c", most=2)
        assert take_all(queue) == ["0-a", "2-b"]
        queue.free("0-a")
        assert take_all(queue) == ["1-a"]


def keyed_queue(*keys, most=None, priorities=None):
    queue = queue_of()
    for n, key in enumerate(keys):
        queue.put(f"{n}-{key}", Place(1, "n", most, key, 1), priorities[n] if priorities else 0)
    return queue


class TestHolds:
    def test_nothing_of_a_held_name_starts(self):
        """The others of its bucket do."""
        queue = queue_of(("x1", 1, "x", 9), ("y1", 1, "y"))
        queue.hold(("name", "x"))
        assert take_all(queue) == ["y1"]

    def test_released_work_stands_where_it_stood(self):
        """Its age counts from its acceptance."""
        queue = queue_of(("x1", 1, "x"), ("y1", 1, "y"))
        queue.hold(("name", "x"))
        queue.put("x2", Place(1, "x"))
        queue.put("y2", Place(1, "y"))
        queue.unhold(("name", "x"))
        assert take_all(queue) == ["x1", "y1", "x2", "y2"]

    def test_a_name_can_be_held_before_any_of_it_waits(self):
        """A hold is not of tasks, but of what may start."""
        queue = queue_of()
        queue.hold(("name", "x"))
        queue.put("x1", Place(1, "x"))
        assert queue.take() is None

    def test_what_runs_of_a_held_name_counts_for_its_limit(self):
        """Also once it is released."""
        queue = queue_of(("x1", 1, "x", 0, 1), ("x2", 1, "x", 0, 1))
        assert queue.take() == "x1"
        queue.hold(("name", "x"))
        queue.unhold(("name", "x"))
        assert queue.take() is None
        queue.free("x1")
        assert queue.take() == "x2"

    def test_everything_can_be_held(self):
        """Beside names that are held by themselves and stay so."""
        queue = queue_of(("x1", 1, "x"), ("y1", 1, "y"))
        queue.hold(NODE)
        queue.hold(("name", "x"))
        assert queue.take() is None
        queue.unhold(NODE)
        assert take_all(queue) == ["y1"]

    def test_a_bucket_can_be_held(self):
        """Whatever stands in it; a name that is held by itself stays so when the bucket is released."""
        queue = queue_of(("x1", 1, "x"), ("x2", 2, "x"), ("y1", 1, "y"))
        queue.hold(("bucket", 1))
        queue.hold(("name", "x"))
        queue.unhold(("name", "x"))
        assert take_all(queue) == ["x2"]
        queue.hold(("name", "x"))
        queue.unhold(("bucket", 1))
        assert take_all(queue) == ["y1"]

    def test_held_work_can_be_removed(self):
        """And leaves nothing behind that would come up later."""
        queue = queue_of(("x1", 1, "x"))
        queue.hold(("name", "x"))
        assert queue.take() is None
        queue.remove("x1")
        queue.unhold(("name", "x"))
        assert (len(queue), queue.take()) == (0, None)


class TestNewLimits:
    def test_a_raised_limit_lets_waiting_work_start(self):
        """It is put again with its new place, and keeps its turn."""
        queue = queue_of(*((f"x{n}", 1, "x", 0, 1) for n in range(4)))
        assert take_all(queue) == ["x0"]
        queue.put("x3", Place(1, "x", 3))
        assert take_all(queue) == ["x1", "x2"]

    def test_a_lowered_limit_ends_nothing_and_starts_nothing(self):
        """Until enough of what runs has ended."""
        queue = queue_of(*((f"x{n}", 1, "x", 0, 2) for n in range(4)))
        assert take_all(queue) == ["x0", "x1"]
        queue.put("x2", Place(1, "x", 1))
        queue.free("x0")
        assert queue.take() is None
        queue.free("x1")
        assert take_all(queue) == ["x2"]

    def test_a_new_limit_per_key_counts_what_runs(self):
        """It was started when there was none."""
        queue = queue_of()
        for n in range(3):
            queue.put(str(n), Place(1, "x", None, "k"))
        assert queue.take() == "0"
        queue.put("1", Place(1, "x", None, "k", 1))
        assert queue.take() is None


class Naive:
    """The same rules, looked up anew in the whole backlog each time."""

    def __init__(self, node, per_bucket):
        self.node, self.per_bucket = node, per_bucket
        self.waiting, self.running, self.turns, self.held = {}, {}, [], set()
        self.order = itertools.count()

    def put(self, task_id, place, priority):
        self.waiting[task_id] = (place, -priority, next(self.order))
        if place.bucket not in self.turns:
            self.turns.append(place.bucket)

    def remove(self, task_id):
        self.waiting.pop(task_id, None)
        self.turns = [b for b in self.turns if any(place.bucket == b for place, *_ in self.waiting.values())]

    def may_start(self, place):
        taken = list(self.running.values())
        return (
            len(taken) < self.node
            and place.name not in self.held
            and sum(each.bucket == place.bucket for each in taken) < self.per_bucket
            and sum(each.name == place.name for each in taken) < (place.max_parallel or 99)
            and (
                place.key is None
                or sum((each.name, each.key) == (place.name, place.key) for each in taken)
                < (place.max_parallel_per_key or 99)
            )
        )

    def take(self):
        for bucket in self.turns:
            here = [
                (rank, order, task_id)
                for task_id, (place, rank, order) in self.waiting.items()
                if place.bucket == bucket and self.may_start(place)
            ]
            if here:
                task_id = min(here)[2]
                self.running[task_id] = self.waiting[task_id][0]
                self.turns.remove(bucket)
                self.turns.append(bucket)
                self.remove(task_id)
                return task_id
        return None


PLACES = st.builds(
    lambda bucket, name, key: Place(
        bucket, name, {"x": 1, "y": 2}.get(name), key and f"{bucket}{key}", {"y": 1, "z": 1}.get(name)
    ),
    st.sampled_from([None, 1, 2]),
    st.sampled_from("wxyz"),
    st.sampled_from([None, "a", "b", "c"]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PLACES, st.integers(0, 2)),
        st.tuples(st.just("take")),
        st.tuples(st.just("take")),
        st.tuples(st.sampled_from(["free", "remove"]), st.integers(0, 99)),
        st.tuples(st.sampled_from(["hold", "unhold"]), st.sampled_from("wxyz")),
    ),
    max_size=60,
)


class TestModel:
    @settings(max_examples=200)
    @given(STEPS, st.integers(1, 5), st.integers(1, 3))
    def test_it_does_what_a_look_through_the_whole_backlog_would(self, steps, node, per_bucket):
        """Limits, holds, priority, age and turns: whatever comes and goes, the very same task is next."""
        queue, naive = queue_of(node=node, per_bucket=per_bucket), Naive(node, per_bucket)
        for n, (step, *facts) in enumerate(steps):
            if step == "put":
                queue.put(str(n), *facts)
                naive.put(str(n), *facts)
            elif step == "take":
                assert queue.take() == naive.take()
            elif step == "hold":
                queue.hold(("name", *facts))
                naive.held.update(facts)
            elif step == "unhold":
                queue.unhold(("name", *facts))
                naive.held.difference_update(facts)
            elif step == "free" and naive.running:
                task_id = sorted(naive.running)[facts[0] % len(naive.running)]
                queue.free(task_id)
                del naive.running[task_id]
            elif step == "remove" and naive.waiting:
                task_id = sorted(naive.waiting)[facts[0] % len(naive.waiting)]
                queue.remove(task_id)
                naive.remove(task_id)
        assert (len(queue), queue.running) == (len(naive.waiting), len(naive.running))
        for name in "wxyz":
            queue.unhold(("name", name))
        naive.held.clear()
        while naive.waiting:  # nobody is left behind for ever
            taken = queue.take()
            assert taken == naive.take()
            if taken is None:
                queue.free(freed := min(naive.running))
                del naive.running[freed]
        assert queue.take() is None


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


SHAPES = {
    "one name": lambda n: Place(n % 4, f"name-{n % 3}"),
    "a key each": lambda n: Place(1, "n", None, str(n), 1),
    "keys at their limit": lambda n: Place(1, "n", None, str(n // 5), 1),
    "names at their limit": lambda n: Place(n % 8, f"name-{n // 5}", 1),
    "a thousand names": lambda n: Place(n % 4, f"name-{n % 1000}"),
    "one name at its limit": lambda n: Place(n % 8, "n", 3, str(n)),
}
MOST_LOOKS = 30
MOST_COMPARISONS = 60


class TestCost:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_dispatch_costs_hardly_more_when_much_waits(self, shape, monkeypatch):
        """Looks at lines and comparisons, for one end and one start, in the midst of ten thousand waiting tasks."""
        looks = 0

        def counted(gate):
            nonlocal looks
            looks += 1
            return is_open(gate)

        is_open = Gate.is_open.fget
        queue = queue_of(node=50)
        queue._order = map(Order, itertools.count())
        for n in range(10_000):
            queue.put(str(n), SHAPES[shape](n), n % 7)
        running = deque(take_all(queue))
        monkeypatch.setattr(Gate, "is_open", property(counted))
        dearest = (0, 0)
        for _ in range(2000):
            Order.compared = looks = 0
            queue.free(running.popleft())
            running.extend(take_all(queue))
            dearest = max(dearest[0], looks), max(dearest[1], Order.compared)
        assert len(queue) < 8000
        assert (dearest[0] < MOST_LOOKS, dearest[1] < MOST_COMPARISONS) == (True, True), dearest

    def test_a_hold_of_ten_thousand_tasks_costs_one_look(self, monkeypatch):
        """They are one line at one gate, whatever their keys."""
        queue = queue_of()
        queue.hold(("name", "n"))
        for n in range(10_000):
            queue.put(str(n), Place(1, "n", None, str(n), 1))
        queue.put("other", Place(1, "m"))
        looks = []
        is_open = Gate.is_open.fget
        monkeypatch.setattr(Gate, "is_open", property(lambda gate: looks.append(gate) or is_open(gate)))
        assert take_all(queue) == ["other"]
        assert len(looks) < 10
        queue.unhold(("name", "n"))
        assert queue.take() == "0"

    def test_what_comes_and_goes_leaves_nothing_behind(self):
        """Also below somebody who stays in front: a queue that is in use for months stays small."""
        queue = queue_of(("front", 1, "n", 9), node=1)
        queue.occupy("runs", Place(1, "other"))
        for n in range(5000):
            queue.put(f"t{n}", Place(1, "n", None, f"key-{n}", 1))
            queue.put(f"u{n}", Place(1, "n"))
            queue.remove(f"t{n}")
            queue.remove(f"u{n}")
        names = queue._root.lines[1].lines["n"]
        assert len(names.front._heap) < 100
        assert len(names.lines[None].front._heap) < 100
        assert len(queue._gates) < 10
