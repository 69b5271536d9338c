"""`chong tasks`: the task definitions of each node."""

from dataclasses import dataclass, replace

import click

from chong.cli import candidates
from chong.cli.definition import error_text, options_text
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Cell, Column
from chong.cli.screen import print_json, print_table
from chong.cli.shared_hold import remark_stranger
from chong.store.model import CatalogueEntry
from chong.supervisor.shown_holds import ShownHolds

COLUMNS = (
    Column("NODE", floor=6, spare=4),
    Column("NAME", floor=10),
    Column("PARAMETERS", floor=10, spare=3),
    Column("OPTIONS", floor=10, spare=2),
    Column("MODULE", floor=8, spare=5),
    Column("HOLD", floor=10, spare=1),
    Column("ERROR", floor=24),
)


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
        holds = ShownHolds(entries, reached.store.holds().holds)
        if not entries and node is not None:
            remark_stranger(reached.store, node)
    entries = [replace(entry, hold=holds.on(_Definition(entry.node, entry.name))) for entry in entries]
    return print_json(entries) if as_json else print_table(COLUMNS, [_task_cells(entry) for entry in entries])


@dataclass(frozen=True, slots=True)
class _Definition:
    """What a hold may be of; a bucket is none of a definition's matters."""

    node: str
    name: str
    bucket: None = None


def _task_cells(entry: CatalogueEntry) -> list[Cell | str]:
    options = options_text(entry.options)
    parameters = str(entry.options.get("parameters", ""))
    hold = Cell(entry.hold or "", "wait" if entry.hold else None)
    error = Cell(error_text(entry) or "", "bad" if entry.error else None)
    return [entry.node, entry.name, parameters, options, entry.module, hold, error]
