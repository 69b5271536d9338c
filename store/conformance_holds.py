"""What every store promises about holds, and about forgetting a node."""
# ruff: noqa: PLR2004 - the numbers are the cases

from dataclasses import replace
from datetime import timedelta

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import CatalogueEntry, HoldList, HoldScope, LeaseGrant, SharedHold
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    SetClock,
    moved,
    node_record,
    put,
    queued,
    read,
    request,
    save_of,
    start_of,
    stored_queued,
    stored_run,
    term_record,
)
from chong.store.states import Status

SEVEN = SharedHold(scope=HoldScope.BUCKET, target="7", by="olga@desk", reason="名")
MAIL = SharedHold(scope=HoldScope.NAME, target="mail", by="eve")
REST = SharedHold(scope=HoldScope.NODE, target=NODE, by="eve")


class HoldRules(Rules):
    """`place_hold`, `lift_hold`, `holds`, `changed_holds`, `acknowledge_holds`."""

    def test_a_hold_comes_back_as_it_was_placed(self, store: TaskStore, clock: SetClock) -> None:
        """By scope and target, since now; without any there are none."""
        store.register_term(term_record(), node_record())
        assert store.holds().holds == ()
        for hold in (REST, MAIL, SEVEN):
            store.place_hold(hold)
        assert [replace(hold, since=clock.now) for hold in (SEVEN, MAIL, REST)] == list(store.holds().holds)

    def test_the_first_hold_of_a_target_stands(self, store: TaskStore, clock: SetClock) -> None:
        """A second one changes neither who nor since; another scope is another target."""
        store.place_hold(SEVEN)
        clock.advance(5)
        store.place_hold(replace(SEVEN, by="eve", reason=None))
        store.place_hold(replace(SEVEN, scope=HoldScope.NAME))
        assert [(hold.scope, hold.by, hold.since) for hold in store.holds().holds] == [
            (HoldScope.BUCKET, SEVEN.by, START),
            (HoldScope.NAME, SEVEN.by, clock.now),
        ]

    def test_a_hold_that_is_lifted_is_gone(self, store: TaskStore) -> None:
        """The others stay; one that was not there is done."""
        store.place_hold(SEVEN)
        store.place_hold(MAIL)
        for _ in range(2):
            store.lift_hold(HoldScope.BUCKET, "7")
            assert [hold.target for hold in store.holds().holds] == ["mail"]

    def test_each_change_raises_the_revision(self, store: TaskStore) -> None:
        """Who knows the revision that stands is told nothing; whoever knows another one is told everything."""
        first = store.holds().revision
        placed = store.place_hold(MAIL)
        assert store.changed_holds(placed) is None
        assert [hold.target for hold in _told(store, first).holds] == ["mail"]
        lifted = store.lift_hold(MAIL.scope, MAIL.target)
        assert store.changed_holds(lifted) is None
        assert _told(store, placed) == HoldList(lifted, ()) == store.holds()
        assert first < placed < lifted

    def test_a_revision_that_is_ahead_is_not_the_one_that_stands(self, store: TaskStore) -> None:
        """A store that was put back knows less than its nodes."""
        assert _told(store, store.place_hold(MAIL) + 7).holds != ()

    def test_a_node_says_which_holds_it_keeps_to(self, store: TaskStore) -> None:
        """Its current term does, and a registration of the same term leaves that alone; the next one begins anew."""
        store.register_term(term_record(), node_record())
        assert [node.holds_seen for node in store.nodes()] == [None]
        assert store.acknowledge_holds(TERM, 3) is True
        store.register_term(term_record(), node_record(generation=2))
        assert [(node.holds_seen, node.generation) for node in store.nodes()] == [(3, 2)]
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        assert store.acknowledge_holds(TERM, 4) is False
        assert [node.holds_seen for node in store.nodes()] == [None]

    def test_a_namesake_of_another_state_directory_raises_the_revision(self, store: TaskStore) -> None:
        """The one that it has displaced may live, and finds out so; a later term of the same one is nothing new."""
        store.register_term(term_record(), node_record())
        before = store.holds().revision
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        assert store.holds().revision == before
        other = replace(term_record(FOREIGN_TERM), node_id="another")
        store.register_term(other, node_record(FOREIGN_TERM, node_id="another"))
        assert store.holds().revision > before


class ForgetRules(Rules):
    """`forget_node`."""

    @pytest.fixture
    def gone(self, store: TaskStore, clock: SetClock) -> TaskStore:
        """Two nodes, of which `NODE` has not been seen for longer than its lease."""
        store.register_term(term_record(), node_record())
        clock.advance(31)
        store.register_term(term_record(FOREIGN_TERM, "node-b"), node_record(FOREIGN_TERM, "node-b"))
        return store

    def test_waiting_work_of_a_forgotten_node_is_lost(self, gone: TaskStore, clock: SetClock) -> None:
        """With who, why and when; what runs is left to its lease, and so is what others wait for."""
        run = stored_run(gone, 1)
        first = stored_queued(gone, 2)
        again = stored_run(gone, 3)
        again = put(gone, again, moved(again, Status.RETRYING))
        foreign = stored_queued(gone, 4, node="node-b", lease_owner=FOREIGN_TERM)
        assert gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt") == 2
        for task in (first, again):
            stored = read(gone, task)
            assert (stored.status, stored.version, stored.ended_at) == (Status.LOST, task.version + 1, clock.now)
            last = gone.history(task.id)[-1]
            assert (last.source, last.target, last.version) == (task.status, Status.LOST, stored.version)
            assert (last.actor, last.reason, last.event_id, last.at) == ("olga", "burnt", "forget.1", clock.now)
            (note,) = gone.notes(task.id)
            assert (note.kind, note.actor) == ("forgotten", "olga")
            assert NODE in (note.detail or "")
        assert read(gone, run).status is Status.STARTING
        assert read(gone, foreign).status is Status.QUEUED

    def test_a_forgotten_node_is_gone_with_what_it_declared(self, gone: TaskStore) -> None:
        """Declaration, catalogue and the hold on it too; the others' stay, and so do its terms."""
        for node in (NODE, "node-b"):
            gone.declare_buckets(node, frozenset({7}))
            gone.publish_catalogue(node, [CatalogueEntry(node=node, name="mail", module="m")])
            gone.place_hold(replace(REST, target=node))
        before = gone.holds().revision
        assert gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt") == 0
        assert [node.node for node in gone.nodes()] == ["node-b"]
        assert [claim.node for claim in gone.declarations()] == ["node-b"]
        assert [entry.node for entry in gone.catalogue()] == ["node-b"]
        assert [hold.target for hold in gone.holds().holds] == ["node-b"]
        assert gone.terms(NODE) == [term_record()]
        assert gone.holds().revision > before
        assert gone.acknowledge_holds(TERM, before) is False

    def test_a_node_that_was_forgotten_is_not_held(self, gone: TaskStore) -> None:
        """Nor one that there never was: the hold would wait for another one of that name."""
        gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt")
        revision = gone.holds().revision
        with pytest.raises(Refused, match=NODE):
            gone.place_hold(REST)
        assert gone.holds() == HoldList(revision, ())

    def test_a_node_goes_after_the_last_of_its_work(self, gone: TaskStore) -> None:
        """Piece by piece, oldest first; it is known until then."""
        tasks = [stored_queued(gone, number) for number in (1, 2, 3)]
        counts = []
        while gone.nodes()[0].node == NODE:
            counts.append(gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt", limit=2))
        assert counts == [2, 1, 0]
        assert {read(gone, task).status for task in tasks} == {Status.LOST}

    def test_requests_for_forgotten_work_end(self, gone: TaskStore) -> None:
        """Nobody would ever take them up; those for a run wait for whoever judges it."""
        waiting, run = stored_queued(gone, 1), stored_run(gone, 2)
        for number, task in enumerate((waiting, run)):
            gone.submit_command(request(number, task))
        gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt")
        assert [command.outcome for task in (waiting, run) for command in gone.commands(task.id)] == ["too_late", None]

    def test_forgotten_work_is_not_run_by_whoever_comes_back(self, gone: TaskStore) -> None:
        """It is final: what a supervisor that was cut off would write is refused."""
        task = stored_queued(gone)
        gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt")
        (verdict,) = gone.save_many([save_of(task, start_of(task), lease=LeaseGrant(TERM, TTL))])
        assert verdict is not None
        assert read(gone, task).status is Status.LOST

    def test_a_unique_key_is_free_again(self, gone: TaskStore) -> None:
        """The work may be submitted elsewhere."""
        stored_queued(gone, 1, unique_key="daily")
        gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt")
        again = queued(2, node="node-b", lease_owner=FOREIGN_TERM, unique_key="daily")
        assert read(gone, put(gone, None, again)).status is Status.QUEUED

    def test_a_live_node_is_not_forgotten(self, gone: TaskStore, clock: SetClock) -> None:
        """Nothing of it is touched; one that has ended by itself can be."""
        task = stored_queued(gone, node="node-b", lease_owner=FOREIGN_TERM)
        with pytest.raises(Refused, match="node-b is live"):
            gone.forget_node("node-b", "forget.1", actor="olga", reason="burnt")
        assert read(gone, task).status is Status.QUEUED
        clock.advance(1)
        gone.end_term(FOREIGN_TERM)
        assert gone.forget_node("node-b", "forget.2", actor="olga", reason="sold") == 1

    def test_only_a_node_can_be_forgotten(self, gone: TaskStore, clock: SetClock) -> None:
        """Also when it was so before."""
        clock.advance(timedelta(days=1).total_seconds())
        gone.forget_node(NODE, "forget.1", actor="olga", reason="burnt")
        for name in (NODE, "nobody"):
            with pytest.raises(Refused, match="no node is called"):
                gone.forget_node(name, "forget.2", actor="olga", reason="burnt")


def _told(store: TaskStore, known: int) -> HoldList:
    found = store.changed_holds(known)
    assert found is not None
    return found
