"""`chong buckets`: who owns each bucket, and what is open there."""

from dataclasses import replace
from datetime import timedelta

import click

from chong.cli.bucketrow import BucketRow, bucket_rows
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column
from chong.cli.screen import print_json, print_table, remark
from chong.cli.times import span
from chong.store.buckets import format_buckets
from chong.store.few import few
from chong.store.model import HoldScope
from chong.supervisor.coverage import Cover, dropped_of, owners_of

COLUMNS = (
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
    return print_json(rows) if as_json else print_table(COLUMNS, [_bucket_cells(group) for group in _alike(rows)])


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
