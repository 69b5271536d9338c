"""Commands that look at the whole deployment: buckets, nodes, definitions, counts."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

import click

from chong.cli import candidates
from chong.cli.bucketrow import BucketRow, bucket_rows
from chong.cli.definition import error_text, options_text
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column
from chong.cli.screen import print_json, print_table, remark
from chong.cli.shared_hold import holds_by_target, remark_stranger
from chong.cli.taskrow import status_cell
from chong.cli.times import span, stamp, utc_now
from chong.store.buckets import format_buckets
from chong.store.few import few
from chong.store.model import BucketDeclaration, CatalogueEntry, HoldScope, NodeRecord, SharedHold
from chong.store.view import as_json as view_of
from chong.supervisor.coverage import Cover, dropped_of, owners_of
from chong.supervisor.holds import EVERYTHING
from chong.supervisor.shown_holds import Target, together

RANGES_SHOWN = 16
"""Of a node's buckets in a table."""

_BUCKETS = (
    Column("", floor=0),
    Column("BUCKET", right=True),
    Column("STATE"),
    Column("OWNERS", floor=8),
    Column("LIVE OWNER", floor=8),
    Column("QUEUED", right=True),
    Column("RUNNING", right=True),
    Column("EXPIRED", right=True),
    Column("OLDEST WAIT", right=True),
    Column("HOLD", floor=10),
)

_NODES = (
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

_TASKS = (
    Column("NODE", floor=6, spare=4),
    Column("NAME", floor=10),
    Column("PARAMETERS", floor=10, spare=3),
    Column("OPTIONS", floor=10, spare=2),
    Column("MODULE", floor=8, spare=5),
    Column("HOLD", floor=10, spare=1),
    Column("ERROR", floor=24),
)


@click.command()
@json_option
@click.pass_obj
def buckets(call: Invocation, *, as_json: bool) -> None:
    """Show who owns each bucket and what is open there.

    "*" marks buckets in --owned-buckets, "-" stands for work without a key. Owners are what nodes declared; a bucket is
    UNCOVERED when none of its owners is alive, as before the first start of any node, and DUPLICATE when several have
    declared it. LIVE OWNER has all that are alive. HOLD says why work of the bucket waits on every node.
    """
    with reach(call) as reached:
        found = reached.store.survey(still=timedelta(0))
        dropped = dropped_of(found.nodes, found.declarations, found.rebucketed_at)
        owners = owners_of(reached.policy.num_buckets, found.declarations, found.nodes, dropped=dropped)
        rows = bucket_rows(reached.policy, owners, found.loads, reached.is_mine)
    if found.deployment.num_buckets is None:
        remark(
            f"chong: number of buckets not recorded yet, {reached.policy.num_buckets} assumed: no node has been here"
        )
    held = {hold.target: hold.text for hold in found.holds if hold.scope is HoldScope.BUCKET}
    rows = [replace(row, hold=held.get(str(row.bucket))) for row in rows]
    return print_json(rows) if as_json else print_table(_BUCKETS, [_bucket_cells(group) for group in _alike(rows)])


def _text(hold: SharedHold | None) -> str | None:
    return None if hold is None else hold.text


def _alike(rows: list[BucketRow]) -> list[list[BucketRow]]:
    """Neighbours without open work that say the same are one line: 48 uncovered buckets are one thing to know."""
    groups: list[list[BucketRow]] = []
    for row in rows:
        last = groups[-1][-1] if groups else None
        if last is not None and _is_idle(row) and replace(last, bucket=row.bucket) == row and _follows(row, last):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _is_idle(row: BucketRow) -> bool:
    return not (row.queued or row.running or row.expired)


def _follows(row: BucketRow, last: BucketRow) -> bool:
    return last.bucket is not None and row.bucket == last.bucket + 1


def _bucket_cells(group: list[BucketRow]) -> list[Cell | str]:
    row = group[0]
    return [
        "*" if row.mine else " ",
        "-" if row.bucket is None else format_buckets(each.bucket for each in group if each.bucket is not None),
        Cell(row.state.value, "good" if row.state is Cover.OK else "bad"),
        few(row.owners),
        few(row.live_owners),
        str(row.queued),
        str(row.running),
        Cell(str(row.expired), "bad" if row.expired else None),
        "" if row.oldest_wait is None else span(row.oldest_wait),
        Cell(row.hold or "", "wait" if row.hold else None),
    ]


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
    drains = {node.node: _text(held.get((HoldScope.NODE, node.node))) for node in found}
    holds = {node.node: together(filter(None, (drains[node.node], own.get(node.node)))) for node in found}
    if as_json:
        return print_json(
            [
                {**view_of(node), "buckets": _declared_by(node, declared, dropped), "hold": holds[node.node]}
                for node in found
            ]
        )
    return print_table(
        _NODES,
        [
            _node_cells(
                node,
                _declared_by(node, declared, dropped),
                "drained" if drains[node.node] else "held",
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


def _state_of(node: NodeRecord) -> Cell:
    """Who has ended by itself is not missed."""
    if node.ended_at is not None:
        return Cell("down")
    return Cell("live", "good") if node.is_live else Cell("silent", "bad")


def _node_cells(node: NodeRecord, declared: list[int] | None, mark: str, hold: str | None) -> list[Cell | str]:
    state = _state_of(node)
    return [
        node.node,
        Cell(f"{state.text} ({mark})", "wait" if node.is_live else state.style) if hold else state,
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


@click.command()
@click.option("--node", help="Only the definitions of this node.", shell_complete=candidates.nodes())
@json_option
@click.pass_obj
def tasks(call: Invocation, *, node: str | None, as_json: bool) -> None:
    """Show the task definitions of each node, with holds and errors.

    OPTIONS are those that are not the default. ERROR begins with what it costs: a module "not imported", its name in
    brackets; a task "not served", because its definition is refused; or one that is "served, but" not by its schedule,
    or beside another definition that is refused.
    """
    with reach(call) as reached:
        entries = reached.store.catalogue(node)
        held = holds_by_target(reached.store)
        if not entries and node is not None:
            remark_stranger(reached.store, node)
    entries = [replace(entry, hold=_holds_on(entry, held)) for entry in entries]
    return print_json(entries) if as_json else print_table(_TASKS, [_task_cells(entry) for entry in entries])


def _holds_on(entry: CatalogueEntry, held: Mapping[Target, SharedHold]) -> str | None:
    """The node's own word, then what the store holds of a definition; a bucket is none of its matters."""
    shared = (held.get((HoldScope.NODE, entry.node)), held.get((HoldScope.NAME, entry.name)))
    return together(filter(None, (entry.hold, *map(_text, shared))))


def _task_cells(entry: CatalogueEntry) -> list[Cell | str]:
    options = options_text(entry.options)
    parameters = str(entry.options.get("parameters", ""))
    hold = Cell(entry.hold or "", "wait" if entry.hold else None)
    error = Cell(error_text(entry) or "", "bad" if entry.error else None)
    return [entry.node, entry.name, parameters, options, entry.module, hold, error]


@click.command()
@click.option("--mine", is_flag=True, help="Only tasks in --owned-buckets.")
@json_option
@click.pass_obj
def stats(call: Invocation, *, mine: bool, as_json: bool) -> None:
    """Count the tasks in each status."""
    with reach(call) as reached:
        counts = reached.store.stats(reached.mine() if mine else None)
    if as_json:
        return print_json(counts)
    columns = (Column("STATUS"), Column("TASKS", right=True))
    return print_table(columns, [[status_cell(status), str(count)] for status, count in counts.items()])
