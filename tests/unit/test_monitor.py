"""The look at the deployment that each supervisor takes, and what becomes of its outcome."""

from datetime import UTC, datetime, timedelta

import pytest

from chong.store.errors import StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.specimens import NODE, TERM, node_record, term_record
from chong.supervisor.monitor import Monitor, lead

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


def monitor(store, changes, errors):
    return Monitor(
        store,
        TERM,
        every=60,
        orphan_after=600,
        configured={"other": None},
        on_changes=changes.append,
        on_error=errors.append,
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(-1, 1, 0), (0, 0, 0), (3, 4, 3), (-5, -4, -4), (-9, 2, 0), (2, 2, 2)]
)
def test_a_clock_is_ahead_by_as_much_as_is_certain(before, after, expected):
    """What the look itself took is no error of the clock."""
    assert lead(NOW + before * S, NOW, NOW + after * S) == expected * S


def test_a_lost_answer_leaves_nobody_untold():
    """The next look reports under the same event, and is given what the lost one had changed."""
    changes, errors = [], []
    with LosesAnswers() as store:
        store.register_term(term_record(), node_record())
        watching = monitor(store, changes, errors)
        assert watching.look() == 60
        assert (changes, len(errors)) == ([], 1)
        watching.look()
        watching.look()
    raised = [{alert.subject for alert in each.raised} for each in changes]
    assert "node other" in raised[0]
    assert raised[1] == set()


def test_a_look_tells_the_store_its_clock():
    """Both are this machine's here."""
    with InMemoryTaskStore() as store:
        store.register_term(term_record(), node_record())
        monitor(store, [], []).look()
        assert [(node.node, node.clock_ahead) for node in store.nodes()] == [(NODE, timedelta(0))]


def test_a_clock_that_is_off_is_an_alert():
    """Of the node that has it, at its next look."""
    with InMemoryTaskStore(clock=lambda: datetime.now(UTC) - timedelta(minutes=5)) as store:
        store.register_term(term_record(), node_record())
        watching = monitor(store, [], [])
        watching.look()
        watching.look()
        assert ("clock", f"node {NODE}") in {(alert.kind, alert.subject) for alert in store.alerts()}
