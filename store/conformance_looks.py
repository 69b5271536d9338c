"""What every store promises about reading, and what nodes tell about themselves."""
# ruff: noqa: PLR2004 - the numbers are the cases

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import CatalogueEntry, Note, TaskSnapshot
from chong.store.query import TaskQuery
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    SetClock,
    node_record,
    stored_end,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

MINUTE = timedelta(minutes=1)


def numbers(tasks: Iterable[TaskSnapshot]) -> list[int]:
    return [int(task.id[:8], 16) for task in tasks]


class QueryRules(Rules):
    """`query`, `find`, `stats`, `bucket_loads`, `notes`."""

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({}, [5, 4, 3, 2, 1]),
            ({"buckets": frozenset({1, 2})}, [3, 2, 1]),
            ({"buckets": frozenset()}, []),
            ({"statuses": frozenset({Status.STARTING, Status.SUCCEEDED})}, [5, 4]),
            ({"names": frozenset({"report.daily", "other"})}, [2]),
            ({"tags": frozenset({"io"})}, [3, 1]),
            ({"tags": frozenset({"io", "night"})}, [3]),
            ({"tags": frozenset({"io", "none"})}, []),
            ({"node": "node-b"}, [4]),
            ({"key": "acme"}, [2, 1]),
            ({"ids": frozenset({task_id(1), task_id(3), task_id(404)})}, [3, 1]),
            ({"since": START + MINUTE}, [5, 4]),
            ({"before": task_id(3)}, [2, 1]),
            ({"limit": 2}, [5, 4]),
            ({"buckets": frozenset({1}), "tags": frozenset({"io"}), "names": frozenset({"billing.sync"})}, [1]),
        ],
    )
    def test_a_condition_is_kept(self, store: TaskStore, conditions: dict[str, Any], expected: list[int]) -> None:
        """Newest first, and all conditions have to hold."""
        stored_queued(store, 1, bucket=1, bucket_key="acme", tags=frozenset({"io"}))
        stored_queued(store, 2, bucket=1, bucket_key="acme", name="report.daily")
        stored_queued(store, 3, bucket=2, bucket_key="else", tags=frozenset({"io", "night", "third"}))
        stored_run(store, 4, node="node-b", created_at=START + MINUTE)
        stored_end(store, 5, created_at=START + 2 * MINUTE)
        assert expected == numbers(store.query(TaskQuery(**conditions)))

    def test_a_look_for_what_no_store_can_hold_says_so(self, store: TaskStore) -> None:
        """And speaks of what was asked for: nothing was to be stored."""
        for ask in (
            lambda: store.query(TaskQuery(names=frozenset({"\udc80"}))),
            lambda: store.query(TaskQuery(buckets=frozenset({10**30}))),
            lambda: store.catalogue("\udc80"),
        ):
            try:
                assert ask() == []
            except Refused as refusal:
                assert "what was asked for cannot be looked up" in str(refusal)  # noqa: PT017 - finding nothing is right too

    def test_pages_follow_each_other_without_gap_or_repeat(self, store: TaskStore) -> None:
        """The last id of a page leads to the next one, also when a newer task came in between."""
        for number in range(1, 8):
            stored_queued(store, number)
        pages, before = [], None
        while page := store.query(TaskQuery(limit=3, before=before)):
            pages.append(numbers(page))
            before = page[-1].id
            stored_queued(store, 10 + len(pages))
        assert pages == [[7, 6, 5], [4, 3, 2], [1]]

    def test_a_query_gives_whole_snapshots(self, store: TaskStore) -> None:
        """The same as get(), lease included."""
        run = stored_run(store)
        assert [store.get(run.id)] == store.query(TaskQuery())

    @pytest.mark.parametrize(
        ("part", "expected"),
        [("00000001", [1]), ("0001", [1]), ("0000", [3, 2, 1]), ("ffff", []), (task_id(2), [2]), ("", [3, 2, 1])],
    )
    def test_a_task_is_found_by_either_end_of_its_id(self, store: TaskStore, part: str, expected: list[int]) -> None:
        """Beginning or end, newest first, each task once."""
        for number in (1, 2, 3):
            stored_queued(store, number)
        assert expected == numbers(store.find(part))

    @pytest.mark.parametrize("part", ["%", "_", "*", "?", "0000%"])
    def test_nothing_in_an_id_stands_for_something_else(self, store: TaskStore, part: str) -> None:
        """Wildcards of SQL find nothing."""
        stored_queued(store)
        assert store.find(part) == []

    def test_finding_keeps_its_limit(self, store: TaskStore) -> None:
        """The newest ones are given."""
        for number in (1, 2, 3):
            stored_queued(store, number)
        assert numbers(store.find("0000", limit=2)) == [3, 2]

    def test_stats_count_every_status(self, store: TaskStore) -> None:
        """Statuses without tasks are there with 0."""
        stored_queued(store, 1, bucket=1)
        stored_queued(store, 2)
        stored_end(store, 3, bucket=2)
        expected = dict.fromkeys(Status, 0) | {Status.QUEUED: 2, Status.SUCCEEDED: 1}
        assert expected == store.stats()

    def test_stats_of_buckets_leave_the_rest_out(self, store: TaskStore) -> None:
        """Keyless tasks belong to no bucket."""
        stored_queued(store, 1, bucket=1)
        stored_queued(store, 2)
        stored_end(store, 3, bucket=2)
        assert store.stats(frozenset({1, 9}))[Status.QUEUED] == 1
        assert sum(store.stats(frozenset({2})).values()) == 1

    def test_bucket_loads_show_open_work(self, store: TaskStore, clock: SetClock) -> None:
        """Queued, running, expired and the longest wait; keyless first, finished work not at all."""
        stored_queued(store, 1, bucket=2)
        stored_queued(store, 2, bucket=2, status_changed_at=START - MINUTE)
        stored_run(store, 3, bucket=1)
        stored_queued(store, 4)
        stored_end(store, 5, bucket=9)
        clock.advance(60)
        keyless, first, second = store.bucket_loads()
        assert _load(keyless) == (None, 1, 0, 0, MINUTE)
        assert _load(first) == (1, 0, 1, 1, None)
        assert _load(second) == (2, 2, 0, 0, 2 * MINUTE)

    def test_notes_are_kept_in_order(self, store: TaskStore, clock: SetClock) -> None:
        """With both times; they change no state."""
        run = stored_run(store)
        first = Note(task_id=run.id, kind="odd_exit", at=START, actor="a", event_id="2", detail="名")
        second = replace(first, kind="late_result", event_id="1", detail=None)
        store.append([first, second])
        stored = [replace(note, stored_at=clock.now) for note in (first, second)]
        assert stored == store.notes(run.id)
        assert len(store.history(run.id)) == 2

    def test_a_note_of_the_same_event_is_ignored(self, store: TaskStore) -> None:
        """Also when the rest of the batch is new."""
        run = stored_run(store)
        note = Note(task_id=run.id, kind="odd_exit", at=START, actor="a", event_id="1")
        store.append([note])
        store.append([replace(note, kind="other"), replace(note, event_id="2")])
        assert [kept.kind for kept in store.notes(run.id)] == ["odd_exit", "odd_exit"]

    def test_a_note_on_no_task_is_ignored(self, store: TaskStore) -> None:
        """Nothing would ever show it or remove it; the rest of its batch is kept."""
        run = stored_run(store)
        note = Note(task_id=task_id(404), kind="odd_exit", at=START, actor="a", event_id="1")
        store.append([note, replace(note, task_id=run.id)])
        assert (len(store.notes(task_id(404))), len(store.notes(run.id))) == (0, 1)


class NodeRules(Rules):
    """`claim_firing`, `register_term`, `nodes`, `declare_buckets`, `publish_catalogue`, `deployment`, `close`."""

    def test_a_firing_is_claimed_once(self, store: TaskStore) -> None:
        """Two nodes that own the same bucket run it once."""
        assert store.claim_firing("a", "k", START, node=NODE, event_id="1") is True
        assert store.claim_firing("a", "k", START, node="node-b", event_id="2") is False

    def test_a_firing_without_a_key_is_claimed_once(self, store: TaskStore) -> None:
        """No key is a key like any other here."""
        assert store.claim_firing("a", None, START, node=NODE, event_id="1") is True
        assert store.claim_firing("a", None, START, node="node-b", event_id="2") is False

    def test_a_firing_claimed_again_by_its_own_event_is_mine(self, store: TaskStore) -> None:
        """After a lost answer the claimer learns that it may run."""
        store.claim_firing("a", None, START, node=NODE, event_id="1")
        assert store.claim_firing("a", None, START, node=NODE, event_id="1") is True

    @pytest.mark.parametrize(
        ("name", "key", "later"), [("b", "k", 0), ("a", "l", 0), ("a", None, 0), ("a", "", 0), ("a", "k", 1)]
    )
    def test_another_firing_is_another_claim(self, store: TaskStore, name: str, key: str | None, later: int) -> None:
        """Name, key and instant together make a firing."""
        store.claim_firing("a", "k", START, node=NODE, event_id="1")
        planned = START + timedelta(microseconds=later)
        assert store.claim_firing(name, key, planned, node=NODE, event_id="2") is True

    def test_a_registered_node_is_live(self, store: TaskStore, clock: SetClock) -> None:
        """It comes back as it declared itself, seen now."""
        node = node_record(limits={"node": 8, "名": None}, generation=3)
        store.register_term(term_record(), node)
        assert [replace(node, seen_at=clock.now, is_live=True)] == store.nodes()

    def test_a_node_that_is_not_seen_is_not_live(self, store: TaskStore, clock: SetClock) -> None:
        """Its record stays."""
        store.register_term(term_record(), node_record())
        clock.advance(30)
        assert [node.is_live for node in store.nodes()] == [False]

    def test_renewing_is_a_sign_of_the_node(self, store: TaskStore, clock: SetClock) -> None:
        """Also when it has no runs."""
        store.register_term(term_record(), node_record())
        clock.advance(29)
        store.renew(TERM, [], TTL)
        clock.advance(29)
        assert [node.is_live for node in store.nodes()] == [True]

    def test_a_former_terms_renewal_is_no_sign_of_the_node(self, store: TaskStore, clock: SetClock) -> None:
        """Only the current term speaks for it."""
        store.register_term(term_record(), node_record())
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        clock.advance(31)
        store.renew(TERM, [], TTL)
        assert [(node.term, node.is_live) for node in store.nodes()] == [(LATER_TERM, False)]

    def test_a_node_whose_term_has_ended_is_not_live(self, store: TaskStore, clock: SetClock) -> None:
        """At once, and whatever it renews after that; ended twice it has ended once more."""
        store.register_term(term_record(), node_record())
        for _ in range(2):
            store.end_term(TERM)
            store.renew(TERM, [], TTL)
            assert [(node.ended_at, node.is_live) for node in store.nodes()] == [(clock.now, False)]
            clock.advance(1)

    def test_the_next_term_makes_its_node_live_again(self, store: TaskStore) -> None:
        """A former one that ends behind it changes nothing."""
        store.register_term(term_record(), node_record())
        store.end_term(TERM)
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM))
        store.end_term(TERM)
        assert [(node.ended_at, node.is_live) for node in store.nodes()] == [(None, True)]

    def test_terms_are_listed_newest_first(self, store: TaskStore) -> None:
        """Each with what would prove its death."""
        store.register_term(term_record(), node_record())
        later = term_record(LATER_TERM, started_at=START + MINUTE)
        store.register_term(later, node_record(LATER_TERM))
        store.register_term(term_record(FOREIGN_TERM, "node-b"), node_record(FOREIGN_TERM, "node-b"))
        assert [later, term_record()] == store.terms(NODE)
        assert [node.node for node in store.nodes()] == [NODE, "node-b"]

    def test_a_term_registered_again_is_there_once(self, store: TaskStore) -> None:
        """After a lost answer."""
        store.register_term(term_record(), node_record())
        store.register_term(term_record(), node_record())
        assert [term_record()] == store.terms(NODE)

    def test_declarations_show_duplicates(self, store: TaskStore) -> None:
        """Two nodes that claim the same bucket both stay visible, by bucket and node."""
        store.declare_buckets("node-b", frozenset({1, 2}))
        store.declare_buckets("node-a", frozenset({2}))
        found = [(row.bucket, row.node) for row in store.declarations()]
        assert found == [(1, "node-b"), (2, "node-a"), (2, "node-b")]

    def test_a_declaration_replaces_the_nodes_former_one(self, store: TaskStore, clock: SetClock) -> None:
        """None declares no bucket."""
        store.declare_buckets("node-a", frozenset({1, 2}))
        store.declare_buckets("node-b", frozenset({3}))
        clock.advance(1)
        store.declare_buckets("node-a", frozenset({2}))
        found = [(row.bucket, row.node, row.updated_at) for row in store.declarations()]
        assert found == [(2, "node-a", START + timedelta(seconds=1)), (3, "node-b", START)]
        store.declare_buckets("node-a", None)
        assert [row.bucket for row in store.declarations()] == [3]

    def test_a_catalogue_replaces_the_nodes_former_one(self, store: TaskStore) -> None:
        """By node and name, options and load errors included."""
        entry = CatalogueEntry(node=NODE, name="b", module="m", options={"keys": ["名"], "timeout": None})
        broken = CatalogueEntry(node=NODE, name="a", module="n", error="ImportError: no")
        foreign = CatalogueEntry(node="node-b", name="a", module="m")
        store.publish_catalogue(NODE, [replace(entry, name="gone")])
        store.publish_catalogue("node-b", [foreign])
        store.publish_catalogue(NODE, [entry, broken])
        assert [broken, entry, foreign] == store.catalogue()
        assert [foreign] == store.catalogue("node-b")

    def test_a_new_deployment_has_no_number_of_buckets(self, store: TaskStore) -> None:
        """The first supervisor records it."""
        found = store.deployment()
        assert found.num_buckets is None
        assert found.oldest_code <= found.schema_version

    def test_the_first_number_of_buckets_stands(self, store: TaskStore) -> None:
        """A second one is told what stands."""
        assert store.record_num_buckets(64).num_buckets == 64
        assert store.record_num_buckets(16).num_buckets == 64
        assert store.deployment().num_buckets == 64

    def test_closing_twice_is_closing_once(self, store: TaskStore) -> None:
        """close() is idempotent."""
        store.close()
        store.close()


def _load(load: Any) -> tuple[Any, ...]:
    return (load.bucket, load.queued, load.running, load.expired, load.oldest_wait)
