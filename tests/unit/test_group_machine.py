"""What a group lets run and calls off, in random walks against its rules as they are written."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan import PLANS

from chong.supervisor.group_machine import CallOff, Let, Machine, Verdict, result_of
from chong.worker.plan import Call, Group, call, group, pipeline

A = call("a")
GOOD, BROKEN, ENDED = Verdict.GOOD, Verdict.BROKEN, Verdict.ENDED


class Walk:
    """A machine, and what has become of its members."""

    def __init__(self, plan) -> None:
        self.machine = Machine(plan)
        self.running: set[int] = set()
        self.off: dict[int, int] = {}
        self.ends: dict[int, Verdict] = {}
        self.hear(self.machine.begin())

    @property
    def open(self) -> list[int]:
        return [part.number for part in self.machine.calls if part.number not in self.ends]

    def hear(self, found) -> None:
        for each in found:
            if isinstance(each, Let):
                self.running |= set(each.numbers) - set(self.ends)
            else:
                assert isinstance(each, CallOff)
                assert not self.off.keys() & set(each.numbers), "nothing is called off twice"
                self.off |= dict.fromkeys(each.numbers, each.culprit)

    def end(self, number: int, verdict: Verdict) -> None:
        self.ends[number] = verdict
        self.running.discard(number)
        self.hear(self.machine.ended(number, verdict))


def walked(plan, *ends):
    walk = Walk(plan)
    for number, verdict in ends:
        walk.end(number, verdict)
    return walk


def test_a_pipeline_lets_one_run_after_the_other():
    """And is over with the last."""
    walk = Walk(pipeline([A, A, A]))
    for number in range(3):
        assert walk.running == {number}
        walk.end(number, GOOD)
    assert walk.machine.is_over
    assert not walk.off


def test_what_stands_behind_a_step_that_came_to_nothing_is_called_off():
    """However it ended; and it is over only when that has ended, too."""
    for verdict in (BROKEN, ENDED):
        walk = walked(pipeline([A, A, group([A, A])]), (0, GOOD), (1, verdict))
        assert (walk.running, walk.off) == (set(), {2: 1, 3: 1})
        walk.end(2, ENDED)
        assert not walk.machine.is_over
        walk.end(3, ENDED)
        assert walk.machine.is_over


def test_a_group_keeps_to_its_limit():
    """A member that was cancelled while it waited leaves no room that there is not."""
    walk = Walk(group([A] * 5, max_parallel=2))
    assert walk.running == {0, 1}
    walk.end(3, ENDED)
    assert walk.running == {0, 1}
    walk.end(0, GOOD)
    assert walk.running == {1, 2}
    walk.end(1, BROKEN)
    assert walk.running == {2, 4}
    assert not walk.off


def test_only_what_breaks_makes_a_group_fail_fast():
    """What somebody has stopped does not, and what it stops triggers nothing."""
    plan = group([A, A, pipeline([A, A])], fail_fast=True)
    assert walked(plan, (0, ENDED)).off == {}
    walk = walked(plan, (2, BROKEN))
    assert walk.off == {0: 2, 1: 2, 3: 2}
    walk.end(0, BROKEN)
    walk.end(1, ENDED)
    assert walk.off == {0: 2, 1: 2, 3: 2}


def test_a_failure_goes_as_far_as_groups_want_it_to():
    """The inner one fails fast, the outer one bears it; or the other way round."""
    walk = walked(group([group([A, A], fail_fast=True), A]), (0, BROKEN))
    assert walk.off == {1: 0}
    walk = walked(group([group([A, A]), A], fail_fast=True), (0, BROKEN))
    assert walk.off == {1: 0, 2: 0}


def test_a_step_that_is_cancelled_before_its_turn_ends_its_pipeline_there():
    """What comes before it runs all the same."""
    walk = walked(pipeline([A, A, A, A]), (2, ENDED))
    assert (walk.running, walk.off) == ({0}, {3: 2})
    walk.end(3, ENDED)
    walk.end(0, GOOD)
    assert walk.running == {1}
    walk.end(1, GOOD)
    assert walk.machine.is_over


def test_results_are_those_of_what_stands_before():
    """Of a group a list, of a pipeline its last one's, through all levels."""
    taking = call("a", into="x")
    machine = Machine(pipeline([group([A, pipeline([A, A])]), group([taking, pipeline([taking, taking])])]))
    machine.begin()
    lets = [each for number in range(3) for each in machine.ended(number, GOOD) if isinstance(each, Let)]
    assert lets[0].numbers == (2,)
    let = lets[1]
    assert (let.numbers, result_of(let.source, {0: "a", 1: "b", 2: "c"})) == ((3, 4), ["a", "c"])
    (inner,) = machine.ended(4, GOOD)
    assert (inner.numbers, result_of(inner.source, {4: "e"})) == ((5,), "e")
    assert [machine.hands_on(number) for number in range(6)] == [True, False, True, False, True, False]


@settings(max_examples=200)
@given(PLANS, st.data())
def test_every_walk_comes_to_an_end_by_the_rules(plan, data):
    """Each limit holds, each order holds, nobody is left, and a next term that is told all ends knows the same."""
    plan = group([plan])
    walk = Walk(plan)
    while walk.open:
        candidates = sorted(walk.running | (walk.off.keys() - walk.ends.keys()))
        if data.draw(st.integers(0, 9)) == 0:
            candidates = walk.open  # an operator may cancel anything
        assert candidates, "somebody waits, and nothing will ever let it go"
        number = data.draw(st.sampled_from(candidates))
        verdict = data.draw(st.sampled_from(list(Verdict))) if number in walk.running else ENDED
        walk.end(number, verdict)
        check(walk)
        assert_same(walk, plan)
    assert walk.machine.is_over


def check(walk: Walk) -> None:
    """What runs may run."""
    for part in walk.machine.root.calls():
        above, inner = part.above, part
        while above is not None:
            is_under_way = any(each.number in walk.running for each in part.calls())
            if not isinstance(above.plan, Group) and is_under_way:
                before = [each for step in above.parts[: inner.place] for each in step.calls()]
                assert all(walk.ends.get(each.number) is GOOD for each in before)
            above, inner = above.above, above
    groups = [walk.machine.root]
    for part in groups:
        groups += part.parts
        if isinstance(part.plan, Group) and part.plan.max_parallel is not None:
            busy = [inner for inner in part.parts if any(each.number in walk.running for each in inner.calls())]
            assert len(busy) <= part.plan.max_parallel


def assert_same(walk: Walk, plan) -> None:
    """Told of the ends in the order of the plan, another machine has called off the same, and let run what was not."""
    other = walked(plan, *sorted(walk.ends.items()))
    assert other.running - other.off.keys() == walk.running - walk.off.keys()
    assert other.off.keys() - walk.ends.keys() == walk.off.keys() - walk.ends.keys()


def test_ten_thousand_members_end_one_after_the_other():
    """No end looks at all others: this would take minutes."""
    for plan in (group([A] * 10_000, fail_fast=True), pipeline([A] * 10_000), group([A] * 10_000, max_parallel=3)):
        walk = Walk(plan)
        for number in range(10_000):
            walk.machine.ended(number, GOOD if number < 5000 else BROKEN)
        assert walk.machine.is_over


def test_a_call_alone_is_no_part_of_itself():
    """The plan of a part is what was written."""
    machine = Machine(group([replace(A, key="k")]))
    assert [part.plan for part in machine.calls if isinstance(part.plan, Call)] == [call("a", key="k")]
