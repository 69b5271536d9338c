"""`chong stats`: how many tasks there are in each status."""

import click

from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import Column
from chong.cli.screen import print_json, print_table
from chong.cli.taskrow import status_cell

_COLUMNS = (Column("STATUS"), Column("TASKS", right=True))


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
    return print_table(_COLUMNS, [[status_cell(status), str(count)] for status, count in counts.items()])
