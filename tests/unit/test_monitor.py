"""The look at the deployment that each supervisor takes, and what becomes of its outcome."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from chong.store.alert import Finding
from chong.store.errors import StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.model import HoldScope, SharedHold
from chong.store.specimens import NODE, TERM, SetClock, node_record, queued, stored_queued, term_record
from chong.supervisor.alert_notices import tell_alerts
from chong.supervisor.monitor import Monitor, lead
from chong.supervisor.recurring import Recurring
from chong.supervisor.share import Share

S = timedelta(seconds=1)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class LosesAnswers(InMemoryTaskStore):
    """The first report is written, and its answer does not arrive."""

    lost = 1

    def report_findings(self, *args, **more):
        changes = super().report_findings(*args, **more)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("gone")
        return changes


def monitor(store, changes):
    return Monitor(
        store,
        TERM,
        every=60,
        orphan_after=600,
        configured={"other": Share()},
        on_changes=lambda changed, found: changes.append((changed, found)),
        trouble=Recurring(get_logger(), "check_failed", "check_back"),
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(-1, 1, 0), (0, 0, 0), (3, 4, 3), (-5, -4, -4), (-9, 2, 0), (2, 2, 2)]
)
def test_a_clock_is_ahead_by_as_much_as_is_certain(before, after, expected):
    """What the look itself took is no error of the clock."""
    assert lead(NOW + before * S, NOW, NOW + after * S) == expected * S


def test_a_lost_answer_leaves_nobody_untold():
    """The next look reports under the same event, and is given what the lost one had changed."""
    changes = []
    with LosesAnswers() as store, capture_logs() as lines:
        store.register_term(term_record(), node_record())
        watching = monitor(store, changes)
        assert watching.look() == 60
        assert (changes, [line["event"] for line in lines]) == ([], ["check_failed"])
        watching.look()
        watching.look()
    raised = [{alert.subject for alert in changed.raised} for changed, _ in changes]
    assert "unknown node other" in raised[0]
    assert raised[1] == set()


def test_a_look_tells_the_store_its_clock():
    """Both are this machine's here."""
    with InMemoryTaskStore() as store:
        store.register_term(term_record(), node_record())
        monitor(store, []).look()
        assert [(node.node, node.clock_ahead) for node in store.nodes()] == [(NODE, timedelta(0))]


def test_a_clock_that_is_off_is_an_alert():
    """Of the node that has it, at its next look."""
    with InMemoryTaskStore(clock=lambda: datetime.now(UTC) - timedelta(minutes=5)) as store:
        store.register_term(term_record(), node_record())
        watching = monitor(store, [])
        watching.look()
        watching.look()
        assert ("clock", f"node {NODE}") in {(alert.kind, alert.subject) for alert in store.alerts()}


def test_what_is_stuck_is_an_alert_when_two_looks_in_a_row_find_it():
    """A hold explains a queue that stands still; when it is lifted the queue moves a moment later."""
    clock = SetClock()
    with InMemoryTaskStore(clock=clock) as store:
        stored_queued(store)
        store.place_hold(SharedHold(scope=HoldScope.NAME, target=queued().name, by="olga"))
        clock.advance(3600)
        store.register_term(term_record(), node_record())
        watching = monitor(store, [])

        def stuck_after_a_look():
            watching.look()
            return [alert.kind for alert in store.alerts() if alert.kind == "stuck"]

        assert [stuck_after_a_look() for _ in range(2)] == [[], []]
        store.lift_hold(HoldScope.NAME, queued().name)
        assert [stuck_after_a_look() for _ in range(3)] == [[], ["stuck"], ["stuck"]]


def test_a_store_that_cannot_be_looked_over_is_told_once_and_when_it_is_over():
    """Not with every look."""
    with LosesAnswers() as store, capture_logs() as lines:
        store.lost = 5
        store.register_term(term_record(), node_record())
        watching = monitor(store, [])
        for _ in range(7):
            watching.look()
    assert [(line["event"], line["times"]) for line in lines] == [("check_failed", 1), ("check_back", 5)]


@pytest.mark.parametrize(("kind", "level"), [("uncovered", "error"), ("held", "warning")])
def test_an_alert_is_as_loud_as_its_kind_is_grave_and_its_end_is_quiet(kind, level):
    """Both are told to the command as well, with what to do about the very case."""
    told: list[dict] = []
    hook, loop = SimpleNamespace(put=told.append), SimpleNamespace(call=lambda act: act())
    found = [Finding(kind, "x", "why", "do that")]
    with InMemoryTaskStore() as store, capture_logs() as lines:
        for at, each in enumerate((found, [])):
            changes = store.report_findings(each, quiet=timedelta(0), event_id=str(at))
            tell_alerts(changes, each, node="a", hook=hook, loop=loop, log=get_logger())
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("alert_raised", level),
        ("alert_cleared", "info"),
    ]
    assert [(call["event"], call["advice"]) for call in told] == [("raised", "do that"), ("cleared", None)]
