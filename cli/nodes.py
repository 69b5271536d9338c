"""`chong nodes`: the nodes, and which of them are alive."""

from collections.abc import Collection

import click

from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column
from chong.cli.screen import print_json, print_table
from chong.cli.shared_hold import holds_by_target
from chong.cli.standing import state_of
from chong.cli.times import span, stamp, utc_now
from chong.store.buckets import format_buckets
from chong.store.few import few
from chong.store.model import BucketDeclaration, HoldScope, NodeRecord
from chong.store.view import as_json as view_of
from chong.supervisor.coverage import dropped_of
from chong.supervisor.holds import EVERYTHING
from chong.supervisor.shown_holds import together

RANGES_SHOWN = 16
"""Of a node's buckets in a table."""

COLUMNS = (
    Column("NODE", floor=8),
    Column("STATE"),
    Column("SEEN", right=True),
    Column("BUCKETS", floor=8),
    Column("HOST", floor=8, spare=1),
    Column("PID", right=True, spare=2),
    Column("VERSION", spare=6),
    Column("GENERATION", right=True, spare=5),
    Column("CONTAINMENT", spare=4),
    Column("STARTED", floor=10, spare=3),
    Column("TERM", floor=10, spare=7),
    Column("HOLD", floor=10, spare=8),
)


@click.command()
@json_option
@click.pass_obj
def nodes(call: Invocation, *, as_json: bool) -> None:
    """Show the nodes and which of them are alive.

    A node that is drained, or holds everything by itself, starts nothing more; HOLD says by whom and why. BUCKETS are
    what it declared, "-" when a rebucket has dropped that and the node was not started since.
    """
    with reach(call) as reached:
        found = reached.store.nodes()
        declared = reached.store.declarations()
        changes = reached.store.rebucketings()
        # Where the moment cannot be read, no declaration is known to be newer, as in a survey.
        dropped = dropped_of(found, declared, (changes[0].at or utc_now()) if changes else None)
        held = holds_by_target(reached.store)
        own = {entry.node: entry.hold for entry in reached.store.catalogue() if entry.name == EVERYTHING}
    drains = {target: hold.text for (scope, target), hold in held.items() if scope is HoldScope.NODE}
    holds = {node.node: together(filter(None, (drains.get(node.node), own.get(node.node)))) for node in found}
    if as_json:
        return print_json(
            [
                {**view_of(node), "buckets": _declared_by(node, declared, dropped), "hold": holds[node.node]}
                for node in found
            ]
        )
    return print_table(
        COLUMNS,
        [
            _node_cells(
                node,
                _declared_by(node, declared, dropped),
                "drained" if node.node in drains else "held",
                holds[node.node],
            )
            for node in found
        ],
    )


def _declared_by(node: NodeRecord, declared: list[BucketDeclaration], dropped: Collection[str]) -> list[int] | None:
    """None for a node without partition, empty where a rebucket has dropped what it had declared."""
    return [claim.bucket for claim in declared if claim.node == node.node] or ([] if node.node in dropped else None)


def _buckets_text(declared: list[int] | None) -> str:
    if declared is None:
        return "all"
    return few(format_buckets(declared).split(","), RANGES_SHOWN, ",") if declared else "-"


_STYLES = {"live": "good", "silent": "bad"}
"""Who has ended by itself is not missed."""


def _node_cells(node: NodeRecord, declared: list[int] | None, mark: str, hold: str | None) -> list[Cell | str]:
    state = state_of(node)
    style = _STYLES.get(state)
    return [
        node.node,
        Cell(f"{state} ({mark})", "wait" if node.is_live else style) if hold else Cell(state, style),
        "" if node.seen_at is None else f"{span(utc_now() - node.seen_at)} ago",
        _buckets_text(declared),
        node.host,
        str(node.pid),
        node.version,
        str(node.generation or ""),
        node.containment,
        stamp(node.started_at) or "",
        node.term,
        Cell(hold or "", "wait" if hold else None),
    ]
