"""A holder is dead when its lease is past and the judge has watched it for a whole lease, and not before."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.store import pages
from chong.store.errors import StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.model import Lease
from chong.store.specimens import START, TERM, TTL, SetClock, read, stored_queued, stored_run
from chong.store.states import Status
from chong.supervisor import reconcile as reconcile_module
from chong.supervisor.reconcile import LOOK_SECONDS, REASON, Judge
from chong.supervisor.watch import Watch

SECONDS = TTL.total_seconds()


def lease(*, renewals=0, is_past=True, term=TERM, task_id="a", ttl=TTL):
    return Lease(task_id, term, START, ttl, renewals, is_past)


class TestWatch:
    def test_a_past_lease_is_watched_for_a_whole_lease(self):
        """In which a living holder would renew it."""
        watch = Watch()
        dead = [watch.observe([lease()], now) for now in (0, SECONDS - 0.1, SECONDS)]
        assert dead == [[], [], ["a"]]

    def test_a_renewal_begins_the_watch_anew(self):
        """Somebody lives."""
        watch = Watch()
        watch.observe([lease()], 0)
        watch.observe([lease(renewals=1)], 20)
        assert (watch.observe([lease(renewals=1)], 49), watch.observe([lease(renewals=1)], 50)) == ([], ["a"])

    def test_another_holder_begins_the_watch_anew(self):
        """An adoption counts renewals from nothing."""
        watch = Watch()
        watch.observe([lease()], 0)
        assert watch.observe([lease(term="node-a.2")], SECONDS) == []

    def test_an_outage_begins_the_watch_anew(self):
        """While the store was away nobody could renew."""
        watch = Watch()
        watch.observe([lease()], 0)
        watch.forget()
        assert (watch.observe([lease()], 100), watch.observe([lease()], 100 + SECONDS)) == ([], ["a"])

    def test_a_lease_that_holds_is_never_dead(self):
        """However long nobody has renewed it by our clock."""
        watch = Watch()
        watch.observe([lease(is_past=False)], 0)
        assert watch.observe([lease(is_past=False)], 1000) == []

    def test_watching_begins_before_a_lease_is_past(self):
        """What was seen then counts."""
        watch = Watch()
        watch.observe([lease(is_past=False)], 0)
        assert watch.observe([lease()], SECONDS) == ["a"]

    def test_a_lease_that_was_gone_is_watched_anew(self):
        """It is another run's."""
        watch = Watch()
        watch.observe([lease()], 0)
        watch.observe([], 10)
        assert watch.observe([lease()], SECONDS) == []

    def test_each_lease_has_its_own_length(self):
        """By which its holder renews."""
        watch = Watch()
        leases = [lease(task_id="a", ttl=timedelta(seconds=3)), lease(task_id="b")]
        watch.observe(leases, 0)
        assert (watch.observe(leases, 3), watch.observe(leases, SECONDS)) == (["a"], ["a", "b"])

    @given(
        st.lists(st.floats(0, SECONDS / 3), min_size=1, max_size=60), st.lists(st.booleans(), min_size=60, max_size=60)
    )
    def test_a_living_holder_is_never_dead(self, gaps, past):
        """It renews in every third of a lease, whatever the store's clock makes of its lease."""
        watch, now = Watch(), 0.0
        for renewals, gap in enumerate(gaps):
            now += gap
            assert watch.observe([lease(renewals=renewals, is_past=past[renewals])], now) == []


class PlayedTime:
    """A monotonic clock and a store's clock that move together, by sleeping; `upon` may do something meanwhile."""

    def __init__(self, monkeypatch):
        self.store_clock = SetClock()
        self.now = 0.0
        self.upon = lambda: None
        monkeypatch.setattr(reconcile_module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def sleep(self, seconds):
        self.now += seconds
        self.store_clock.advance(seconds)
        self.upon()


@pytest.fixture
def time(monkeypatch):
    return PlayedTime(monkeypatch)


@pytest.fixture
def store(time):
    with InMemoryTaskStore(time.store_clock) as store:
        yield store


class TestReconcile:
    def test_where_nothing_runs_it_answers_at_once(self, store, time):
        """There is nothing to watch."""
        stored_queued(store)
        assert (Judge(store, "judge").reconcile(None, sleep=time.sleep), time.now) == ([], 0.0)

    def test_a_dead_holders_run_is_lost_after_one_lease(self, store, time):
        """Signed by the judge."""
        run = stored_run(store)
        time.store_clock.advance(SECONDS + 1)
        (lost,) = Judge(store, "judge").reconcile(None, sleep=time.sleep)
        last = store.history(run.id)[-1]
        assert (lost.status, last.actor, last.reason) == (Status.LOST, "judge", REASON)
        assert SECONDS <= time.now <= SECONDS + LOOK_SECONDS

    def test_a_holder_that_renews_meanwhile_lives(self, store, time):
        """The watch ends as soon as it is seen."""
        run = stored_run(store)
        time.store_clock.advance(SECONDS + 1)
        time.upon = lambda: store.renew(TERM, [run.id], TTL)
        assert Judge(store, "judge").reconcile(None, sleep=time.sleep) == []
        assert (read(store, run).status, time.now) == (Status.STARTING, LOOK_SECONDS)

    def test_a_clock_that_jumped_kills_nobody(self, store, time):
        """Every lease is past at once; the living renew within the watch."""
        runs = [stored_run(store, number) for number in (1, 2)]
        time.store_clock.advance(1_000_000)
        time.upon = lambda: time.now >= 5 and store.renew(TERM, [run.id for run in runs], TTL)
        assert Judge(store, "judge").reconcile(None, sleep=time.sleep) == []

    def test_an_outage_begins_the_watch_anew(self, store, time, monkeypatch):
        """The store has to answer all along."""
        stored_run(store)
        time.store_clock.advance(SECONDS + 1)
        leases = store.leases

        def answer(ids=None):
            if 20 <= time.now < 25:
                raise StoreUnavailable("away")
            return leases(ids)

        monkeypatch.setattr(store, "leases", answer)
        assert len(Judge(store, "judge").reconcile(None, sleep=time.sleep)) == 1
        assert 25 + SECONDS <= time.now <= 25.5 + SECONDS

    def test_only_the_buckets_that_were_asked_for_are_judged(self, store, time):
        """The others' nodes do it."""
        mine, _ = stored_run(store, 1, bucket=3, bucket_key="a"), stored_run(store, 2, bucket=4, bucket_key="b")
        time.store_clock.advance(SECONDS + 1)
        assert [mine.id] == [task.id for task in Judge(store, "judge").candidates(frozenset({3}))]

    def test_those_beyond_the_first_page_are_judged_too(self, store, time, monkeypatch):
        """After the loss of a large node there may be more than one page holds."""
        monkeypatch.setattr(pages, "PAGE", 2)
        query = store.query
        monkeypatch.setattr(store, "query", lambda asked, **more: query(asked, **more)[:2])
        runs = {stored_run(store, number).id for number in range(1, 6)}
        time.store_clock.advance(SECONDS + 1)
        assert runs == {task.id for task in Judge(store, "judge").candidates(None)}
        assert runs == {task.id for task in Judge(store, "judge").reconcile(None, sleep=time.sleep)}

    def test_whoever_waits_hears_of_it(self, store, time):
        """How many are watched, and for how long at most."""
        stored_run(store)
        time.store_clock.advance(SECONDS + 1)
        heard = []
        Judge(store, "judge").reconcile(None, on_wait=lambda *said: heard.append(said), sleep=time.sleep)
        assert heard[0] == (1, SECONDS)
