"""When scheduled tasks are due, and that each instant is fired once, whatever clock and store do."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.store.buckets import BucketPolicy
from chong.store.errors import StoreUnavailable
from chong.store.ids import is_id
from chong.store.memory import InMemoryTaskStore
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue, Task
from chong.supervisor.firings import Firings
from chong.supervisor.misfire import missed
from chong.supervisor.plans import Plan, plans_of
from chong.supervisor.schedule import EPOCH, Firing, Schedule, jitter_of
from chong.supervisor.submission import Submission
from chong.worker.options import Options
from chong.worker.schedules import Timing, moments_of

START = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def plan(every=10.0, name="tick", keys=(None,), **rules):
    timing = every if isinstance(every, Timing) else Timing(every=every)
    return Plan(name, (timing,), keys, **rules)


def schedule_of(*plans, now=START):
    schedule = Schedule()
    schedule.replace(plans, now)
    return schedule


def fired(schedule, now):
    return [Firing(due.plan.name, key, at) for due in schedule.due(now) for at in due.instants for key in due.keys]


def planned(firings):
    return [(firing.planned - START.replace(microsecond=0)).total_seconds() for firing in firings]


class TestInstants:
    def test_they_are_multiples_of_the_interval_since_the_epoch(self):
        """The same on every node, however long it has been up."""
        schedule = schedule_of(plan(7.0))
        found = [firing for n in range(1, 30) for firing in fired(schedule, START + n * SECOND)]
        assert len(found) == 4
        assert {(firing.planned - EPOCH) % timedelta(seconds=7) for firing in found} == {timedelta()}

    def test_nothing_before_the_start_fires(self):
        """The node did not accept work then."""
        assert fired(schedule_of(plan()), START) == []

    def test_an_instant_fires_once_for_each_key(self):
        """In one look, and in no later one."""
        schedule = schedule_of(plan(keys=("a", "b")))
        assert [firing.key for firing in fired(schedule, START + 10 * SECOND)] == ["a", "b"]
        assert fired(schedule, START + 11 * SECOND) == []

    def test_after_a_gap_only_the_newest_fires(self):
        """A machine that slept for a day does not run everything 8,640 times."""
        schedule = schedule_of(plan())
        assert planned(fired(schedule, START + timedelta(days=1))) == [86_400.0]

    def test_a_clock_that_goes_back_a_little_fires_nothing_twice(self):
        """As when it is corrected."""
        schedule = schedule_of(plan())
        seconds = [9, 10, 9, 10, 8, 12, 19, 20, 15, 20, 21]
        assert [planned(fired(schedule, START + n * SECOND)) for n in seconds] == [
            [], [10.0], [], [], [], [], [], [20.0], [], [], [],
        ]  # fmt: skip

    def test_a_clock_that_goes_far_back_goes_on_from_there(self):
        """It had been a year ahead by mistake; the schedule does not stand still for a year."""
        schedule = schedule_of(plan())
        assert len(fired(schedule, START + timedelta(days=365))) == 1
        found = [planned(fired(schedule, START + n * SECOND)) for n in range(1, 22)]
        assert [each for each in found if each] == [[10.0], [20.0]]

    @given(st.lists(st.integers(-50, 50), max_size=40), st.sampled_from([1.0, 3.0, 10.0]))
    def test_however_the_clock_jumps_each_look_fires_at_most_once(self, jumps, every):
        """And never an instant that is still to come."""
        schedule, now = schedule_of(plan(every)), START
        for jump in jumps:
            now += jump * SECOND
            found = fired(schedule, now)
            assert len(found) <= 1
            assert all(now - firing.planned < timedelta(seconds=every) for firing in found)
            assert all(firing.planned <= now for firing in found)

    def test_new_plans_take_the_place_of_old_ones(self):
        """One with the same interval goes on; one with another, or a new one, begins now."""
        schedule = schedule_of(plan(10.0, "same"), plan(3600.0, "quicker"), plan(10.0, "gone"))
        later = START + 15 * SECOND
        schedule.replace([plan(10.0, "same"), plan(5.0, "quicker"), plan(5.0, "new")], later)
        assert [(firing.name, planned([firing])) for firing in fired(schedule, later)] == [("same", [10.0])]
        assert sorted(firing.name for firing in fired(schedule, START + 20 * SECOND)) == ["new", "quicker", "same"]

    def test_it_knows_how_long_to_wait(self):
        """Until the nearest instant of all; for ever without a plan."""
        assert schedule_of(plan(10.0), plan(4.0, "other")).seconds_to_next(START) == 3.5
        assert schedule_of().seconds_to_next(START) is None


class TestMisfires:
    """What came while nobody could fire it."""

    @pytest.mark.parametrize(
        ("rules", "expected"),
        [({}, [50]), ({"misfire": "skip"}, []), ({"misfire": "all"}, [20, 30, 40, 50]),
         ({"misfire": "all", "limit": 2}, [40, 50])],
        ids=["once", "skip", "all", "a bound"],
    )  # fmt: skip
    def test_since_the_last_claim(self, rules, expected):
        """The newest, none, or each in order, the newest of them up to the bound."""
        timing = Timing(every=10.0)
        base = START.replace(microsecond=0)
        found = missed(plan(timing, **rules), [moments_of(timing)], base + 10 * SECOND, base + 55 * SECOND)
        assert [(instant - base).total_seconds() for instant in found] == expected

    @pytest.mark.parametrize("last", [None, START, START + timedelta(days=2)], ids=["new", "changed", "ahead"])
    def test_what_is_new_or_was_changed_has_missed_nothing(self, last):
        """A last instant that is none of the schedule's own was another schedule's; one to come says nothing."""
        timing = Timing(every=10.0)
        for rule in ("once", "all"):
            assert missed(plan(timing, misfire=rule), [moments_of(timing)], last, START + timedelta(days=1)) == []

    def test_several_timings_are_made_up_for_together(self):
        """In the order of their instants, each once."""
        timings = Timing(every=20.0), Timing(every=30.0)
        base = START.replace(microsecond=0)
        several = Plan("tick", timings, (None,), misfire="all")
        found = missed(several, map(moments_of, timings), base, base + 65 * SECOND)
        assert [(instant - base).total_seconds() for instant in found] == [20, 30, 40, 60]

    @pytest.mark.parametrize(("rule", "expected"), [("once", [3600]), ("skip", []), ("all", [3000, 3600])])
    def test_a_clock_that_is_set_forward_goes_by_the_same_rule(self, rule, expected):
        """As does a machine that slept; what is late by seconds only is not missed."""
        schedule = schedule_of(plan(600.0, misfire=rule, limit=2))
        assert planned(fired(schedule, START + 3700 * SECOND)) == expected
        assert planned(fired(schedule, START + 4259 * SECOND)) == [4200]

    def test_of_an_interval_shorter_than_the_grace_the_newest_fires_whatever_the_rule(self):
        """It is not late."""
        assert planned(fired(schedule_of(plan(10.0, misfire="skip")), START + timedelta(hours=1))) == [3600]

    @given(st.lists(st.integers(-4000, 4000), max_size=30), st.sampled_from(["once", "skip", "all"]))
    def test_a_clock_that_jumps_brings_no_storm(self, jumps, rule):
        """Each look fires what its rule allows, of instants behind those of the look before it, or behind its jump."""
        schedule, now = schedule_of(plan(Timing(cron="*/7 * * * *"), misfire=rule, limit=5)), START
        for jump in jumps:
            before, now = now, now + jump * SECOND
            found = fired(schedule, now)
            assert len(found) <= (5 if rule == "all" else 1)
            assert all(min(before, now) - timedelta(minutes=8) < firing.planned <= now for firing in found)


class TestJitter:
    @given(st.integers(0, 10_000), st.text(max_size=5), st.integers(1, 3600))
    def test_it_is_the_same_on_every_node(self, minutes, key, most):
        """It depends on name, key and instant alone, and is less than its bound."""
        at = START + timedelta(minutes=minutes)
        found = jitter_of("tick", key, at, most)
        assert found == jitter_of("tick", key, at, most)
        assert timedelta() <= found < most * SECOND

    def test_keys_are_spread_over_it(self):
        """Each fires once, at its own time; what is claimed is the planned instant."""
        keys = tuple(map(str, range(100)))
        schedule = schedule_of(plan(Timing(every=60.0, jitter=50.0), keys=keys))
        looks = [fired(schedule, START + n * SECOND) for n in range(1, 112)]
        assert sorted(firing.key for look in looks for firing in look) == sorted(keys)
        assert {firing.planned for look in looks for firing in look} == {START.replace(microsecond=0) + 60 * SECOND}
        assert len([look for look in looks if look]) > 30

    def test_of_several_that_were_missed_the_newest_that_is_due_fires(self):
        """However late each of them would have been."""
        schedule = schedule_of(plan(Timing(every=10.0, jitter=9.0)))
        found = [planned(fired(schedule, START + (1000 + n) * SECOND)) for n in range(1, 31)]
        fired_at = [each for each in found if each]
        assert len(fired_at) in (3, 4)
        assert fired_at == sorted(fired_at)


class TestManyEntries:
    @pytest.mark.parametrize("jitter", [0.0, 30.0])
    def test_a_look_costs_what_is_due_and_not_what_is_planned(self, jitter):
        """At rest nothing is looked at, and nothing computed, however many entries there are."""
        few, many = (
            [plan(Timing(cron=f"{n % 60} {n % 24} * * *", jitter=jitter), f"t{n}", ("a", "b")) for n in range(count)]
            for count in (60, 6000)
        )
        for plans in (few, many):
            schedule = schedule_of(*plans, now=START.replace(minute=1))
            computed = sum(moments.computed for each in plans for moments in schedule.moments(each))
            for n in range(58):
                assert fired(schedule, START.replace(minute=1) + n * SECOND) == []
            assert schedule.looked == 0
            assert sum(moments.computed for each in plans for moments in schedule.moments(each)) == computed
            assert schedule.seconds_to_next(START.replace(minute=1)) > 58

    def test_keys_that_fire_together_cost_one_look(self):
        """And one computation of what comes next."""
        schedule = schedule_of(plan(keys=tuple(map(str, range(10_000)))))
        assert len(fired(schedule, START + 10 * SECOND)) == 10_000
        assert schedule.looked == 1


class TestIds:
    def test_a_firing_has_the_same_id_whenever_it_is_asked_for(self):
        """So what is repeated after a lost answer is one task."""
        firing = Firing("tick", "a", START)
        assert firing.id_on("node-a") == Firing("tick", "a", START).id_on("node-a")
        assert is_id(firing.id_on("node-a"))

    def test_it_sorts_by_the_planned_time(self):
        """As every id does."""
        ids = [Firing("tick", None, START + n * SECOND).id_on("node-a") for n in range(5)]
        assert ids == sorted(ids)
        assert ids[0][14] == "7"

    def test_another_name_key_instant_or_node_has_another_id(self):
        """No key is not the empty key."""
        firings = [
            Firing("tick", None, START), Firing("tick", "", START), Firing("tick", "=", START),
            Firing("tack", None, START), Firing("tick", None, START + timedelta(microseconds=1)),
        ]  # fmt: skip
        assert len({firing.id_on(node) for firing in firings for node in ("node-a", "node-b")}) == 10


def admission(owned=None, node="node-a"):
    return Admission(node, f"{node}.1", 1, BucketPolicy(64), owned)


def catalogue(name="tick", required=(), **options):
    return Catalogue({name: Task(name, "m", "()", Options(**{"every": 10.0, **options}), frozenset(required))})


class TestPlans:
    def test_a_node_plans_the_keys_that_it_owns(self):
        """acme falls into bucket 1, globex into 26."""
        found = plans_of(catalogue(keys=("acme", "globex")), admission(frozenset(range(16))))
        assert found == ([plan(keys=("acme",))], {})

    def test_a_task_without_interval_is_not_planned(self):
        """It is run by hand."""
        assert plans_of(catalogue(every=None), admission()) == ([], {})

    def test_a_partition_cannot_plan_work_without_keys(self):
        """Nobody could tell whose it is; the text says what is expected."""
        plans, errors = plans_of(catalogue(), admission(frozenset(range(16))))
        assert plans == []
        assert str(errors["tick"]).startswith("every: expected keys")

    def test_a_task_that_needs_parameters_cannot_be_planned(self):
        """There is nobody to give them."""
        plans, errors = plans_of(catalogue(required=("path", "mode")), admission())
        assert plans == []
        assert str(errors["tick"]) == "every: expected no parameter without a default, got mode, path"


@dataclass
class Node:
    """A node as far as firings see it: thread, loop and intake are played, the store is real."""

    store: InMemoryTaskStore
    name: str = "node-a"
    now: datetime = START
    is_away: bool = False
    loses_replies: bool = False
    submitted: list[Submission] = field(default_factory=list)
    said: list[tuple[str, dict]] = field(default_factory=list)
    jobs: deque = field(default_factory=deque)
    waits: list[float] = field(default_factory=list)
    open_tasks: list = field(default_factory=list)
    state: dict = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.intake = SimpleNamespace(
            **{"catalogue": catalogue(), "is_accepting": True, "is_ending": False} | self.state,
            admission=admission(node=self.name),
            submit=self.submit,
            room=10_000,
        )  # fmt: skip
        log = SimpleNamespace(**dict.fromkeys(("info", "warning", "error"), self.say))
        loop = SimpleNamespace(call=lambda job: job(), later=lambda seconds, _: self.waits.append(seconds))
        tasks = SimpleNamespace(all=lambda: self.open_tasks)
        self.firings = Firings(
            loop=loop, store=self, intake=self.intake, tasks=tasks, log=log, clock=lambda: self.now
        )  # fmt: skip
        self.firings.courier = SimpleNamespace(do=self.jobs.append)
        self.firings.look()
        self.work()

    def last_firings(self, spots):
        if self.is_away:
            raise StoreUnavailable("away")
        return self.store.last_firings(spots)

    def claim_firings(self, claims, *, node):
        if self.is_away:
            raise StoreUnavailable("away")
        self.batches.append(len(claims))
        won = self.store.claim_firings(claims, node=node)
        if self.loses_replies:
            self.loses_replies = False
            raise StoreUnavailable("the reply is lost")
        return won

    def submit(self, submission, _):
        self.submitted.append(submission)
        task = SimpleNamespace(name=submission.name, bucket_key=submission.key, trigger=submission.trigger)
        self.open_tasks.append(SimpleNamespace(task=task))

    def say(self, event, **facts):
        self.said.append((event, facts))

    def at(self, seconds, *, work=True):
        self.now = START + seconds * SECOND
        self.firings.look()
        if work:
            self.work()

    def work(self):
        while self.jobs:
            self.jobs.popleft()()

    @property
    def events(self):
        return [event for event, _ in self.said]


@pytest.fixture
def store():
    with InMemoryTaskStore() as made:
        yield made


@pytest.fixture
def node(store):
    return Node(store)


class TestFirings:
    def test_a_due_instant_becomes_a_task(self, node):
        """Without parameters, with its trigger, under the firing's own id."""
        node.at(10)
        instant = START.replace(microsecond=0) + 10 * SECOND
        assert [(s.name, s.key, s.params, s.trigger, s.id) for s in node.submitted] == [
            ("tick", None, {}, "schedule", Firing("tick", None, instant).id_on("node-a"))
        ]

    def test_two_nodes_fire_an_instant_once(self, store):
        """Both own the bucket; the store's claim decides."""
        nodes = [Node(store, "node-a"), Node(store, "node-b")]
        for seconds in (10, 20, 30):
            for each in nodes:
                each.open_tasks.clear()
                each.at(seconds)
        assert sum(len(each.submitted) for each in nodes) == 3

    def test_a_lost_reply_does_not_cost_the_firing(self, node):
        """The same claim is asked for again, and is found to be ours."""
        node.loses_replies = True
        node.at(10)
        assert node.submitted == []
        node.at(11)
        assert len(node.submitted) == 1

    def test_without_the_store_a_firing_waits_and_then_is_missed(self, node):
        """When the next instant comes it is dropped, and said to be; the newest is claimed when the store is back."""
        node.is_away = True
        for seconds in (10, 12, 20, 25):
            node.at(seconds)
        assert (node.submitted, node.events) == ([], ["firing_missed"])
        node.is_away = False
        node.at(27)
        assert [s.id for s in node.submitted] == [
            Firing("tick", None, START.replace(microsecond=0) + 20 * SECOND).id_on("node-a")
        ]

    def test_a_claim_under_way_is_not_asked_for_again(self, node):
        """A store that is slow gets no pile of questions."""
        for seconds in (10, 11, 12, 13):
            node.at(seconds, work=False)
        assert len(node.jobs) == 1

    def test_an_instant_that_was_claimed_runs_late_in_place_of_the_next_one(self, node):
        """Nobody else may run it, and its task is open when the next one would be submitted."""
        node.at(10, work=False)
        node.at(20)
        assert [s.id for s in node.submitted] == [
            Firing("tick", None, START.replace(microsecond=0) + 10 * SECOND).id_on("node-a")
        ]
        assert [(event, facts["planned"][17:19]) for event, facts in node.said] == [("firing_skipped", "20")]

    def test_an_instant_that_another_node_has_claimed_makes_room_for_the_newest(self, node, store):
        """Which is asked for at once: the next look may come with the instant after it."""
        first = Firing("tick", None, START.replace(microsecond=0) + 10 * SECOND)
        store.claim_firing("tick", None, first.planned, node="node-b", event_id=first.id_on("node-b"))
        node.at(10, work=False)
        node.at(20)
        assert [s.id for s in node.submitted] == [
            Firing("tick", None, START.replace(microsecond=0) + 20 * SECOND).id_on("node-a")
        ]
        assert node.events == []

    def test_a_supervisor_that_has_begun_to_end_asks_for_no_newer_instant(self, node, store):
        """It would not run it, and another node may."""
        first = Firing("tick", None, START.replace(microsecond=0) + 10 * SECOND)
        store.claim_firing("tick", None, first.planned, node="node-b", event_id=first.id_on("node-b"))
        for seconds in (10, 20):
            node.at(seconds, work=False)
        node.intake.is_ending = True
        node.at(21)
        assert (node.submitted, list(node.jobs)) == ([], [])
        newest = Firing("tick", None, START.replace(microsecond=0) + 20 * SECOND)
        assert store.claim_firing("tick", None, newest.planned, node="node-b", event_id="its own")

    @pytest.mark.parametrize("lost", [False, True], ids=["under way", "its reply lost"])
    def test_a_claim_without_an_answer_is_told_at_the_end(self, node, lost):
        """It may be granted, and then nobody else runs it; what waits behind it was never asked for."""
        node.loses_replies = lost
        node.at(10, work=lost)
        assert node.firings.is_asking is not lost
        if not lost:
            node.at(20, work=False)
        node.firings.end()
        assert [(event, facts["planned"][17:19]) for event, facts in node.said] == [("firing_missed", "10")]

    def test_what_was_answered_is_not_told_at_the_end(self, node):
        """It has its task, or its refusal."""
        node.at(10)
        assert not node.firings.is_asking
        node.firings.end()
        assert node.events == []

    def test_an_instant_without_an_answer_is_missed_when_the_next_one_has_come(self, node):
        """It may be claimed, but what nobody knows is not run; the newest is asked for at the next look."""
        node.loses_replies = True
        node.at(10, work=False)
        node.at(20)
        assert (node.submitted, node.events) == ([], ["firing_missed"])
        node.at(21)
        assert [s.id for s in node.submitted] == [
            Firing("tick", None, START.replace(microsecond=0) + 20 * SECOND).id_on("node-a")
        ]

    def test_a_slow_store_is_asked_one_thing_at_a_time(self, node):
        """However many instants pass meanwhile."""
        for seconds in (10, 20, 30, 40):
            node.at(seconds, work=False)
        assert len(node.jobs) == 1

    def test_while_a_former_task_is_open_firings_are_skipped(self, node):
        """It is said the 1st, 2nd, 4th and 8th time in a row."""
        for seconds in range(10, 110, 10):
            node.at(seconds)
        assert len(node.submitted) == 1
        assert [facts["in_a_row"] for _, facts in node.said] == [1, 2, 4, 8]
        node.open_tasks.clear()
        node.at(110)
        node.at(120)
        assert len(node.submitted) == 2
        assert node.said[-1][1]["in_a_row"] == 1

    def test_a_task_submitted_by_hand_does_not_stand_in_the_way(self, node):
        """Nor does one of another key."""
        others = [("tick", None, "manual"), ("tick", "a", "schedule"), ("tack", None, "schedule")]
        node.open_tasks += [
            SimpleNamespace(task=SimpleNamespace(name=name, bucket_key=key, trigger=trigger))
            for name, key, trigger in others
        ]
        node.at(10)
        assert len(node.submitted) == 1

    @pytest.mark.parametrize("state", [{"is_accepting": False}, {"catalogue": None}])
    def test_what_was_due_before_the_node_took_work_is_not_made_up_for(self, store, state):
        """It accepts between two instants: the later one fires, the earlier one does not."""
        node = Node(store, state=state)
        node.at(10)
        vars(node.intake).update({"is_accepting": True, "catalogue": catalogue()})
        node.at(12)
        assert node.submitted == []
        node.at(20)
        assert len(node.submitted) == 1

    def test_a_supervisor_that_ends_fires_nothing(self, node):
        """It takes no new work from anybody."""
        node.intake.is_ending = True
        node.at(10)
        assert (node.submitted, list(node.jobs)) == ([], [])

    def test_it_looks_again_when_something_may_be_due(self, node):
        """At the instant where it is near, else within a second: clock and definitions may change."""
        node.at(9)
        node.at(5)
        assert node.waits[-2:] == [0.5, 1.0]

    def test_what_cannot_be_scheduled_is_said(self, node):
        """With what is expected."""
        node.intake.catalogue = catalogue("needy", required=("path",))
        node.at(1)
        assert node.events == ["schedule_refused"]


class TestCatchingUp:
    """A node that comes back asks what had fired last."""

    base = START.replace(microsecond=0)

    def claimed(self, store, seconds, key=None):
        store.claim_firing("tick", key, self.base + seconds * SECOND, node="node-b", event_id=f"{key}{seconds}")

    def instants(self, node):
        seconds = range(-100, 101, 10)
        return [
            next(n for n in seconds if Firing("tick", s.key, self.base + n * SECOND).id_on("node-a") == s.id)
            for s in node.submitted
        ]

    def node_of(self, store, **options):
        return Node(store, state={"catalogue": catalogue(**options)})

    def test_the_newest_missed_instant_runs_at_once(self, store):
        """Without a word of it in the definition."""
        self.claimed(store, -50)
        node = self.node_of(store)
        assert self.instants(node) == [0]

    def test_each_key_has_its_own_past(self, store):
        """One that never fired has missed nothing; of a key of somebody else nothing is asked."""
        self.claimed(store, -50, "acme")
        node = self.node_of(store, keys=("acme", "globex"))
        assert [(s.key, n) for s, n in zip(node.submitted, self.instants(node), strict=True)] == [("acme", 0)]

    def test_all_of_them_run_one_behind_the_other(self, store):
        """The next is claimed when the task before it has ended; what comes due meanwhile waits behind them."""
        self.claimed(store, -30)
        node = self.node_of(store, misfire="all")
        for seconds in (1, 2, 11, 12):
            node.at(seconds)
        assert self.instants(node) == [-20]
        for seconds in (13, 14, 15):
            node.open_tasks.clear()
            node.at(seconds)
        assert self.instants(node) == [-20, -10, 0, 10]
        assert node.events == []
        node.at(20)
        assert node.events == ["firing_skipped"]  # nothing waits any more: the rule for overlaps counts again

    def test_none_of_them_runs_if_they_are_to_be_skipped(self, store):
        """It goes on with the next instant."""
        self.claimed(store, -30)
        node = self.node_of(store, misfire="skip")
        assert node.submitted == []
        node.at(10)
        assert self.instants(node) == [10]

    def test_nothing_fires_before_the_store_has_answered(self, store):
        """Else what was missed would come behind what was not."""
        self.claimed(store, -30)
        node = Node(store, is_away=True, state={"catalogue": catalogue(misfire="all")})
        node.at(10)
        assert node.submitted == []
        node.is_away = False
        for seconds in (11, 12, 13, 14, 15):
            node.open_tasks.clear()
            node.at(seconds)
        assert self.instants(node) == [-20, -10, 0, 10]

    def test_two_nodes_make_up_for_an_instant_once(self, store):
        """By the same claim as ever."""
        self.claimed(store, -30)
        nodes = [self.node_of(store), Node(store, "node-b", state={"catalogue": catalogue()})]
        assert sum(len(each.submitted) for each in nodes) == 1

    def test_a_clock_that_is_set_back_an_hour_fires_nothing_twice(self, store):
        """The claims know what has fired; and no past hour is made up for."""
        node = self.node_of(store)
        for seconds in range(10, 60, 10):
            node.open_tasks.clear()
            node.at(seconds)
        before = len(node.submitted)
        for seconds in range(-3600, 60, 10):
            node.open_tasks.clear()
            node.at(seconds)
        assert len({s.id for s in node.submitted}) == len(node.submitted)
        assert len(node.submitted) - before <= 361
        assert "firing_missed" not in node.events


class TestOverlaps:
    def test_instants_wait_in_line_up_to_a_bound(self, store):
        """The oldest goes, and is told; each of the others runs, in order."""
        node = Node(store, state={"catalogue": catalogue(overlap="queue", misfire_limit=2)})
        for seconds in (10, 20, 30, 40):
            node.at(seconds)
        assert len(node.submitted) == 1
        assert [(event, facts["planned"][17:19]) for event, facts in node.said] == [("firing_missed", "20")]
        for seconds in (41, 42, 43):
            node.open_tasks.clear()
            node.at(seconds)
        base = START.replace(microsecond=0)
        assert [s.id for s in node.submitted] == [
            Firing("tick", None, base + n * SECOND).id_on("node-a") for n in (10, 30, 40)
        ]  # fmt: skip

    def test_an_instant_of_two_schedules_fires_once(self, store):
        """It is one firing."""
        options = {"every": None, "schedule": (Timing(every=10.0), Timing(every=20.0))}
        node = Node(store, state={"catalogue": catalogue(**options)})
        node.at(20)
        assert (len(node.submitted), node.events) == (1, [])


class TestBatches:
    KEYS = tuple(f"k{n}" for n in range(1200))

    def test_keys_that_are_due_together_are_claimed_together(self, store):
        """One round trip for five hundred of them."""
        node = Node(store, state={"catalogue": catalogue(keys=self.KEYS)})
        node.at(10)
        assert node.batches == [500, 500, 200]
        assert sorted(s.key for s in node.submitted) == sorted(self.KEYS)

    def test_no_more_are_claimed_than_the_queue_has_room_for(self, store):
        """The others wait, unclaimed, until there is: what is claimed and not taken is lost."""
        node = Node(store, state={"catalogue": catalogue(keys=self.KEYS)})
        node.intake.room = 1300
        node.at(10)
        assert node.batches[0] == 300
        node.intake.room = 1000
        before = len(node.submitted)
        node.at(11)
        assert len(node.submitted) == before
        node.intake.room = 10_000
        node.at(12)
        assert sorted(s.key for s in node.submitted) == sorted(self.KEYS)
