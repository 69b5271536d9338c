"""Schedules, nodes, and what is held or forgotten, over any SQL."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime

from chong.store.deployment import sole_row
from chong.store.errors import Refused
from chong.store.forgetting import check_gone
from chong.store.model import (
    BucketDeclaration,
    CatalogueEntry,
    Deployment,
    FiringClaim,
    HoldList,
    HoldScope,
    NodeRecord,
    SharedHold,
    Spot,
    TermRecord,
)
from chong.store.states import Status
from chong.store.table_calls import Database, TableCalls
from chong.store.texts import check_texts

FORGOTTEN_WORK = ("transitions", "notes", "commands", "tasks")
"""What is written of a forgotten node's waiting tasks, their own rows last: the others look at them."""
FIRING = ("name", "key", "planned", "event_id")
"""What a claim of a firing is listed by."""
FORGOTTEN_NODE = ("buckets", "catalogue", "hold", "row")
"""What is removed of a node that is forgotten."""


class NodeTables(TableCalls):
    # --- schedules, nodes, deployment --------------------------------------------------------------------

    def claim_firings(self, claims: Sequence[FiringClaim], *, node: str) -> list[bool]:
        if not claims:
            return []
        # In one order: of two who claim the same ones neither waits for the other while it is waited for.
        ordered = sorted(claims, key=lambda claim: (claim.name, claim.key or "", claim.planned))
        rows = [asdict(claim) | {"planned": self._codec.moment_in(claim.planned), "node": node} for claim in ordered]
        asked = {f"{name}s": self._array(row[name] for row in rows) for name in FIRING}
        asked["listed"] = self._array([row[name] for name in FIRING] for row in rows)
        with self._writing() as db:
            now = self._now()
            db.executemany(self._queries["claim_firings"], [row | {"now": now} for row in rows])
            won = {row["event_id"] for row in db.execute(self._queries["claim_firings_won"], asked).fetchall()}
        return [claim.event_id in won for claim in claims]

    def last_firings(self, spots: Sequence[Spot]) -> dict[Spot, datetime]:
        check_texts(text for spot in spots for text in spot if text is not None)
        asked = {"names": self._array(name for name, _ in spots), "keys": self._array(key for _, key in spots)}
        asked["listed"] = self._array(map(list, spots))
        rows = self._rows("last_firings", **asked) if spots else []
        return {(row["name"], row["key"]): self._codec.moment_out(row["planned"]) for row in rows}

    def register_term(self, term: TermRecord, node: NodeRecord) -> None:
        with self._writing() as db:
            db.execute(self._queries["register_term_lock"], {})
            db.execute(self._queries["register_term"], self._codec.term_to_columns(term))
            db.execute(self._queries["register_term_node"], self._codec.node_to_columns(node, self._now()))
            # Last: of two that register at once the second one sees the first one's term.
            db.execute(self._queries["register_term_displaces"], {"node": node.node, "node_id": node.node_id})

    def end_term(self, term: str) -> None:
        self._write("end_term", term=term)

    def terms(self, node: str) -> list[TermRecord]:
        return self._readable(self._codec.term_from_row, self._rows("terms", node=node))

    def nodes(self) -> list[NodeRecord]:
        return self._in_part(self._codec.node_from_row, self._rows_of_now("nodes"))

    def declare_buckets(self, node: str, buckets: frozenset[int] | None) -> None:
        with self._writing() as db:
            db.execute(self._queries["declare_buckets_none"], {"node": node})
            declared = {"node": node, "buckets": self._array(sorted(buckets or ())), "now": self._now()}
            db.execute(self._queries["declare_buckets"], declared)

    def declarations(self) -> list[BucketDeclaration]:
        return self._in_part(self._codec.declaration_from_row, self._rows("declarations"))

    def publish_catalogue(self, node: str, entries: Sequence[CatalogueEntry]) -> None:
        rows = [self._codec.catalogue_entry_to_columns(entry) | {"node": node} for entry in entries]
        with self._writing() as db:
            db.execute(self._queries["publish_catalogue_none"], {"node": node})
            if rows:
                db.executemany(self._queries["publish_catalogue"], rows)

    def catalogue(self, node: str | None = None) -> list[CatalogueEntry]:
        return self._in_part(self._codec.catalogue_entry_from_row, self._rows("catalogue", node=node))

    def deployment(self) -> Deployment:
        return self._codec.deployment_from_rows(self._rows("deployment"))

    def record_num_buckets(self, num_buckets: int) -> Deployment:
        self._write("record_num_buckets", num_buckets=num_buckets)
        return self.deployment()

    # --- holds, and nodes that are gone ------------------------------------------------------------------

    def place_hold(self, hold: SharedHold) -> int:
        values = {"scope": hold.scope, "target": hold.target, "by": hold.by, "reason": hold.reason}
        with self._changing_holds() as db:
            if hold.scope is HoldScope.NODE and not db.execute(self._queries["place_hold_node"], values).fetchall():
                raise Refused(f"no node is called {hold.target!r}")
            db.execute(self._queries["place_hold"], values | {"now": self._now()})
            return self._revision(db)

    def lift_hold(self, scope: HoldScope, target: str) -> int:
        with self._changing_holds() as db:
            db.execute(self._queries["lift_hold"], {"scope": scope, "target": target})
            return self._revision(db)

    def changed_holds(self, known: int | None) -> HoldList | None:
        rows = self._rows("changed_holds", known=known)
        if not rows:
            return None
        return HoldList(rows[0]["holds_revision"], self._holds(rows))

    def acknowledge_holds(self, term: str, revision: int) -> bool:
        with self._writing() as db:
            known = db.execute(self._queries["acknowledge_holds"], {"term": term, "revision": revision})
        return known.rowcount > 0

    def forget_node(self, node: str, event_id: str, *, actor: str, reason: str, limit: int = 1000) -> int:
        said = {"node": node, "event_id": event_id, "actor": actor, "reason": reason, "lost": Status.LOST.value}
        with self._changing_holds() as db:
            now = {"now": self._now()}
            found = db.execute(self._queries["forget_node_is_live"], {"node": node} | now).fetchone()
            if found is None:
                raise Refused(f"no node is called {node!r}")
            check_gone(node, is_live=found["is_live"])
            waiting = db.execute(self._queries["forget_node_waiting"], {"node": node, "limit": limit}).fetchall()
            ids = [row["id"] for row in waiting]
            for part in FORGOTTEN_WORK if ids else FORGOTTEN_NODE:
                db.execute(self._queries[f"forget_node_{part}"], said | now | {"ids": self._array(ids)})
        return len(ids)

    @contextlib.contextmanager
    def _changing_holds(self) -> Iterator[Database]:
        """A transaction that changes the holds.

        It raises their revision before anything else: so changes wait for each other, and no revision stands for two
        lists.
        """
        with self._writing() as db:
            db.execute(self._queries["holds_revision_raise"], {})
            yield db

    def _revision(self, db: Database) -> int:
        return int(sole_row(db.execute(self._queries["holds_revision"], {}).fetchone())["holds_revision"])
