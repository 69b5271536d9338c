"""What every store promises about the look at a whole deployment, and about alerts."""
# ruff: noqa: PLR2004 - the numbers are the cases

from datetime import timedelta

from chong.store.alert import Finding
from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.model import CatalogueEntry
from chong.store.specimens import (
    NODE,
    START,
    TERM,
    TTL,
    SetClock,
    node_record,
    request,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

STILL = timedelta(minutes=10)
QUIET = timedelta(seconds=150)
ONE = Finding("duplicate", "buckets 1-3", "declared by one and two")
TWO = Finding("clock", "名", "3s ahead")


class SurveyRules(Rules):
    """`survey`, `report_clock`."""

    def test_a_survey_of_an_empty_store_is_empty(self, store: TaskStore, clock: SetClock) -> None:
        """It has the store's clock, and which database it is."""
        found = store.survey(still=STILL)
        assert (found.now, found.nodes, found.work, found.commands) == (clock.now, (), (), ())
        assert found.engine in {"sqlite", "postgresql"}
        assert found.engine_version[0].isdigit()

    def test_a_survey_shows_what_the_single_looks_show(self, store: TaskStore) -> None:
        """Nodes, declarations, loads, definitions, deployment."""
        store.record_num_buckets(8)
        store.register_term(term_record(), node_record())
        store.declare_buckets(NODE, frozenset({1, 2}))
        store.publish_catalogue(NODE, [CatalogueEntry(node=NODE, name="a", module="m", hold="why")])
        stored_queued(store, 1, bucket=2)
        found = store.survey(still=STILL)
        assert list(found.nodes) == store.nodes()
        assert list(found.declarations) == store.declarations()
        assert list(found.loads) == store.bucket_loads()
        assert list(found.catalogue) == store.catalogue()
        assert found.deployment == store.deployment()

    def test_open_work_is_counted_by_node_bucket_name_and_status(self, store: TaskStore, clock: SetClock) -> None:
        """With the one that has stood still for the longest, by the store's clock; final tasks are left out."""
        stored_queued(store, 1, bucket=2)
        clock.advance(600.5)
        stored_queued(store, 2, bucket=2, status_changed_at=START - timedelta(days=1))
        stored_run(store, 3, bucket=2, node="node-b")
        stored_queued(store, 4)
        stored_end(store, 5)
        keyless, waiting, running = store.survey(still=STILL).work
        assert (keyless.bucket, keyless.tasks, keyless.still) == (None, 1, 0)
        assert (waiting.node, waiting.bucket, waiting.name, waiting.status) == (NODE, 2, "billing.sync", Status.QUEUED)
        assert (waiting.tasks, waiting.still, waiting.since, waiting.task_id) == (2, 1, START, task_id(1))
        assert (running.node, running.status, running.since) == ("node-b", Status.STARTING, clock.now)

    def test_what_waits_for_its_time_stands_still_from_then_on(self, store: TaskStore, clock: SetClock) -> None:
        """However long ago it was submitted; and till then it counts as no wait of its bucket."""
        due = START + timedelta(hours=1)
        stored_queued(store, 1, bucket=2, due_at=due)
        clock.advance(3000)
        (work,), (load,) = store.survey(still=STILL).work, store.bucket_loads()
        assert (work.tasks, work.still, load.queued, load.oldest_wait) == (1, 0, 1, timedelta(0))
        clock.advance(600 + 601)
        (work,), (load,) = store.survey(still=STILL).work, store.bucket_loads()
        assert (work.still, work.since, load.oldest_wait) == (1, due, clock.now - due)

    def test_commands_that_nobody_holds_are_counted_by_node(self, store: TaskStore, clock: SetClock) -> None:
        """A claim that ran out holds nothing, an ended one waits for nobody."""
        run = stored_run(store)
        for number in (1, 2, 3):
            clock.advance(1)
            store.submit_command(request(number, run))
        store.complete_command("command-1", "done")
        (found,) = store.survey(still=STILL).commands
        assert (found.node, found.commands, found.task_id) == (NODE, 2, run.id)
        assert found.since == clock.now - timedelta(seconds=1)
        store.claim_commands(NODE, TERM, lease=TTL)
        assert store.survey(still=STILL).commands == ()
        clock.advance(31)
        assert store.survey(still=STILL).commands[0].commands == 2

    def test_how_long_a_command_has_waited_is_told_by_the_stores_clock(self, store: TaskStore, clock: SetClock) -> None:
        """The clocks of those who issue commands may be hours off, each in its own way."""
        first, later = stored_run(store, 1), stored_run(store, 2)
        stored_at = clock.now
        store.submit_command(request(1, first, issued_at=stored_at + timedelta(hours=3)))
        clock.advance(10)
        store.submit_command(request(2, later, issued_at=stored_at - timedelta(hours=3)))
        (found,) = store.survey(still=STILL).commands
        assert (found.since, found.task_id) == (stored_at, first.id)

    def test_a_node_tells_how_far_its_clock_is_ahead(self, store: TaskStore) -> None:
        """Also backwards; nobody knows before it has said so, and of its next life again."""
        store.register_term(term_record(), node_record())
        assert store.nodes()[0].clock_ahead is None
        for seconds in (2.5, -3600):
            store.report_clock(TERM, timedelta(seconds=seconds))
            assert store.nodes()[0].clock_ahead == timedelta(seconds=seconds)
        store.report_clock("node-a.0", timedelta(seconds=1))
        assert store.survey(still=STILL).nodes[0].clock_ahead == timedelta(hours=-1)
        store.register_term(term_record(), node_record())
        assert store.nodes()[0].clock_ahead is None


class AlertRules(Rules):
    """`report_findings`, `alerts`, `acknowledge_alert`."""

    def test_a_finding_raises_one_alert(self, store: TaskStore, clock: SetClock) -> None:
        """The first report of it is given it, and no later one, whoever makes it."""
        changes = store.report_findings([ONE, TWO], quiet=QUIET, event_id="1")
        assert {(alert.kind, alert.subject, alert.detail) for alert in changes.raised} == {
            (one.kind, one.subject, one.detail) for one in (ONE, TWO)
        }
        assert changes.cleared == ()
        clock.advance(60)
        again = store.report_findings([ONE, TWO], quiet=QUIET, event_id="2")
        assert (again.raised, again.cleared) == ((), ())
        first, _ = store.alerts()
        assert (first.first_seen, first.last_seen) == (START, clock.now)

    def test_a_lost_answer_is_given_again(self, store: TaskStore) -> None:
        """A repeated event gets what it has changed, so that nobody goes untold."""
        first = store.report_findings([ONE], quiet=QUIET, event_id="1")
        assert store.report_findings([ONE], quiet=QUIET, event_id="1") == first

    def test_what_nobody_names_any_more_is_cleared_once(self, store: TaskStore, clock: SetClock) -> None:
        """When it was quiet for long enough: what only one node can see is not cleared by the others."""
        store.report_findings([ONE], quiet=QUIET, event_id="1")
        clock.advance(150)
        assert store.report_findings([], quiet=QUIET, event_id="2").cleared == ()
        clock.advance(1)
        (gone,) = store.report_findings([], quiet=QUIET, event_id="3").cleared
        assert (gone.subject, gone.cleared_at) == (ONE.subject, clock.now)
        assert store.report_findings([], quiet=QUIET, event_id="4").cleared == ()
        assert store.alerts() == []
        assert store.alerts(cleared=True) == [gone]

    def test_what_comes_again_is_another_alert(self, store: TaskStore, clock: SetClock) -> None:
        """Newest first; who took the former one on has not taken this one on."""
        (old,) = store.report_findings([ONE], quiet=QUIET, event_id="1").raised
        store.acknowledge_alert(old.id, "olga")
        clock.advance(151)
        store.report_findings([], quiet=QUIET, event_id="2")
        (new,) = store.report_findings([ONE], quiet=QUIET, event_id="3").raised
        assert (new.acknowledged_by, new.first_seen) == (None, clock.now)
        assert [alert.id for alert in store.alerts(cleared=True)] == [new.id, old.id]
        assert store.alerts(cleared=True, limit=1) == [new]

    def test_the_newest_detail_is_shown(self, store: TaskStore) -> None:
        """It is the same alert as long as kind and subject are the same."""
        store.report_findings([ONE], quiet=QUIET, event_id="1")
        store.report_findings([Finding(ONE.kind, ONE.subject, "by three")], quiet=QUIET, event_id="2")
        assert [alert.detail for alert in store.alerts()] == ["by three"]

    def test_an_alert_is_acknowledged_by_the_first_who_does(self, store: TaskStore, clock: SetClock) -> None:
        """Until it is cleared; of one that is not there nothing is told."""
        (alert,) = store.report_findings([ONE], quiet=QUIET, event_id="1").raised
        for who in ("olga", "ann"):
            taken = store.acknowledge_alert(alert.id, who)
            assert taken is not None
            assert (taken.acknowledged_by, taken.acknowledged_at) == ("olga", clock.now)
        assert store.acknowledge_alert(alert.id + 1, "olga") is None

    def test_a_cleared_alert_is_not_acknowledged(self, store: TaskStore, clock: SetClock) -> None:
        """There is nothing to take on; it is shown as it is."""
        (alert,) = store.report_findings([ONE], quiet=QUIET, event_id="1").raised
        clock.advance(151)
        store.report_findings([], quiet=QUIET, event_id="2")
        taken = store.acknowledge_alert(alert.id, "olga")
        assert taken is not None
        assert (taken.acknowledged_by, taken.cleared_at) == (None, clock.now)

    def test_old_alerts_go_with_old_traces(self, store: TaskStore, clock: SetClock) -> None:
        """Open ones stay, however old."""
        store.report_findings([ONE, TWO], quiet=QUIET, event_id="1")
        clock.advance(151)
        store.report_findings([TWO], quiet=timedelta(days=9), event_id="2")
        store.report_findings([TWO], quiet=QUIET, event_id="3")
        clock.advance(3600)
        assert store.prune_traces(timedelta(minutes=59)) == 1
        assert [alert.kind for alert in store.alerts(cleared=True)] == [TWO.kind]
