"""`chong schedule`: when scheduled tasks run next, and what of them was missed."""

from datetime import UTC, datetime

import click

from chong.cli import candidates
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column
from chong.cli.screen import print_json, print_table, remark
from chong.cli.times import ago, span, stamp, utc_now
from chong.store.contract import TaskStore
from chong.store.model import Spot
from chong.store.view import as_json as view_of
from chong.supervisor.forecast import Forecast, Scheduled, scheduled, spots_of
from chong.supervisor.shown_holds import ShownHolds

MOST = 1000
BATCH = 5000
_LAST = datetime.max.replace(tzinfo=UTC)

COLUMNS = (
    Column("DUE", floor=12),
    Column("NAME", floor=10),
    Column("KEY", floor=6),
    Column("NODE", floor=6, spare=2),
    Column("SCHEDULE", floor=10, spare=1),
    Column("LAST", floor=12, spare=4),
    Column("MISSED", right=True, spare=3),
    Column("RULES", spare=5),
    Column("HOLD", floor=10, spare=1),
    Column("ERROR", floor=24),
)


@click.command()
@click.option("--next", "count", type=click.IntRange(1, MOST), default=1, help="So many firings of each name and key.")
@click.option("--name", help="Only of this task.", shell_complete=candidates.names_everywhere())
@click.option("--key", help="Only of this key.", shell_complete=candidates.kept(candidates.keys))
@json_option
@click.pass_obj
def schedule(call: Invocation, *, count: int, name: str | None, key: str | None, as_json: bool) -> None:
    """Show when scheduled tasks run next, soonest first.

    LAST is the newest instant that a node has claimed, MISSED how many since then are to be made up for. RULES are the
    definition's misfire and overlap. Of many keys the catalogue shows the first hundred.
    """
    with reach(call) as reached:
        store = reached.store
        entries = [entry for entry in store.catalogue() if name in (None, entry.name)]
        holds = ShownHolds(store.catalogue(), store.holds().holds)
        live = {node.node for node in store.nodes() if node.is_live}
        found = list(scheduled(entries, store.declarations(), reached.policy))
        rows = _rows(found, _lasts(store, spots_of(found)), key, count)
    shown = [(row, holds.on(row)) for row in rows]
    if as_json:
        return print_json([{**view_of(row), "live": row.node in live, "hold": hold} for row, hold in shown])
    print_table(COLUMNS, [_cells(row, hold, is_live=row.node in live) for row, hold in shown])
    return _remark_hidden(found)


def _lasts(store: TaskStore, spots: list[Spot]) -> dict[Spot, datetime]:
    found: dict[Spot, datetime] = {}
    for begin in range(0, len(spots), BATCH):
        found |= store.last_firings(spots[begin : begin + BATCH])
    return found


def _rows(found: list[Scheduled], lasts: dict[Spot, datetime], key: str | None, count: int) -> list[Forecast]:
    now = utc_now()
    rows = [
        row
        for each in found
        for shown in (each.keys or ([None] if each.error else []))
        if key in (None, shown)
        for row in each.forecasts(shown, lasts.get((each.entry.name, shown)), now, count)
    ]
    return sorted(rows, key=lambda row: (row.due or _LAST, row.name, row.key or "", row.node))


def _remark_hidden(found: list[Scheduled]) -> None:
    for each in found:
        number = each.entry.options.get("key_count")
        if isinstance(number, int) and number > len(each.options.keys):
            remark(f"{each.entry.name} on {each.entry.node}: {len(each.options.keys)} of {number} keys are shown")


def _cells(row: Forecast, hold: str | None, *, is_live: bool) -> list[Cell | str]:
    now = utc_now()
    due = "never" if row.due is None else f"{stamp(row.due)} (in {span(row.due - now)})"
    return [
        Cell("" if row.error else due, None if is_live else "bad"),
        row.name,
        row.key or "",
        row.node if is_live else f"{row.node} (not alive)",
        row.schedule,
        ago(row.last, now) or "",
        Cell(str(row.missed or ""), "wait" if row.missed else None),
        f"{row.misfire}/{row.overlap}",
        Cell(hold or "", "wait" if hold else None),
        Cell(row.error or "", "bad" if row.error else None),
    ]
