"""What every store promises about nodes: their terms, firings, declarations and catalogues."""
# ruff: noqa: PLR2004 - the numbers are the cases

from dataclasses import replace
from datetime import timedelta

import pytest

from chong.store.conformance_base import Rules
from chong.store.contract import TaskStore
from chong.store.model import CatalogueEntry, FiringClaim
from chong.store.specimens import (
    FOREIGN_TERM,
    LATER_TERM,
    NODE,
    START,
    TERM,
    TTL,
    SetClock,
    node_record,
    term_record,
)

MINUTE = timedelta(minutes=1)


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

    def test_many_firings_are_claimed_at_once(self, store: TaskStore) -> None:
        """Each by itself: what others have of them is theirs, and each answer stands in its place."""
        claims = [
            FiringClaim("a", key, START + n * MINUTE, f"{key}{n}") for n in (1, 0) for key in ("l", None, "k", "")
        ]
        store.claim_firing("a", None, START, node="node-b", event_id="other")
        store.claim_firing("a", "k", START + MINUTE, node=NODE, event_id="k1")
        assert store.claim_firings(claims, node=NODE) == [True, True, True, True, True, False, True, True]
        assert store.claim_firings(claims, node=NODE) == [True, True, True, True, True, False, True, True]
        assert store.claim_firings([], node=NODE) == []

    def test_the_last_firing_of_each_spot_is_known(self, store: TaskStore) -> None:
        """Whoever claimed it, in whatever order; no key is not the empty key, and what never fired is not there."""
        for key, minute in (("k", 2), ("k", 3), ("k", 1), (None, 1), ("l", 9)):
            store.claim_firing("a", key, START + minute * MINUTE, node="node-b", event_id=f"{key}{minute}")
        spots = [("a", None), ("a", "k"), ("a", ""), ("b", "k"), ("a", "名")]
        assert store.last_firings(spots) == {("a", None): START + MINUTE, ("a", "k"): START + 3 * MINUTE}
        assert store.last_firings([]) == {}

    def test_the_last_firing_outlives_the_pruning(self, store: TaskStore, clock: SetClock) -> None:
        """A node that comes back after months learns what it has missed."""
        for minute in (0, 1):
            store.claim_firing("a", "k", START + minute * MINUTE, node=NODE, event_id=str(minute))
        clock.advance(1)
        store.prune_traces(timedelta(0))
        assert store.last_firings([("a", "k")]) == {("a", "k"): START + MINUTE}

    def test_a_registered_node_is_live(self, store: TaskStore, clock: SetClock) -> None:
        """It comes back as it declared itself, seen now."""
        node = node_record(limits={"node": 8, "名": None}, generation=3, machine_id="0123456789abcdef" * 2)
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

    @pytest.mark.parametrize("later", ["f" * 32, ""])
    def test_what_the_newest_term_says_of_its_machine_counts(self, store: TaskStore, later: str) -> None:
        """A node may have moved, to a machine without an id, too."""
        store.register_term(term_record(), node_record(machine_id="0" * 32))
        store.register_term(term_record(LATER_TERM), node_record(LATER_TERM, machine_id=later))
        assert [node.machine_id for node in store.nodes()] == [later]

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
