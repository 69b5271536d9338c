"""`chong ps`: the tasks in one table."""

import click

from chong.cli.filters import Filter, filtered
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import Reached, reach
from chong.cli.screen import print_json, print_table, remark
from chong.cli.shared_hold import remark_stranger
from chong.cli.standing import standings
from chong.cli.taskrow import COLUMNS, task_json, task_row
from chong.cli.times import utc_now
from chong.store.model import TaskSnapshot
from chong.store.query import MAX_LIMIT
from chong.store.states import FINAL, RUNS, WAITING, Status
from chong.supervisor.client import Client


@click.command()
@click.option("--all", "-a", "everything", is_flag=True, help="Final tasks too.")
@click.option("--mine", is_flag=True, help="Only tasks in --owned-buckets.")
@filtered
@click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=100, show_default=True, help="At most so many.")
@click.option("--full-id", is_flag=True, help="Whole ids instead of their last 8 digits.")
@json_option
@click.pass_obj
def ps(
    call: Invocation, *, everything: bool, mine: bool, chosen: Filter, limit: int, full_id: bool, as_json: bool
) -> None:
    """List tasks: running first, then waiting, with --all final ones.

    AGE is the time since a task was created, RAN how long its attempt has been under way, or was. CPU and MEM are what
    a living run has used, and has now. END says how a task ended, or its last attempt. Where the terminal is too narrow
    for all columns, some are left out.
    """
    with reach(call) as reached:
        tasks, more = _listed(reached, chosen, everything=everything, mine=mine, limit=limit)
        known = standings(reached.store, tasks)
        if not tasks and chosen.node is not None:
            remark_stranger(reached.store, chosen.node)
    if as_json:
        return print_json([task_json(task, standing) for task, standing in zip(tasks, known, strict=True)])
    now = utc_now()
    rows = [task_row(task, now, standing, full_id=full_id) for task, standing in zip(tasks, known, strict=True)]
    print_table(COLUMNS, rows)
    if more:
        remark(f"only the first {limit} are shown; raise --limit, or choose by --name, --status, --bucket …")
    return None


def _listed(
    reached: Reached, chosen: Filter, *, everything: bool, mine: bool, limit: int
) -> tuple[list[TaskSnapshot], bool]:
    """Group by group, each newest first, so that a limit never hides what runs behind what has ended."""
    client = Client(reached.store, issued_by="chong ps", owned_buckets=reached.mine() if mine else None)
    wanted = frozenset(chosen.status) or (frozenset(Status) if everything else RUNS | WAITING)
    tasks: list[TaskSnapshot] = []
    for group in (RUNS, WAITING, FINAL):
        room = min(limit + 1, MAX_LIMIT) - len(tasks)
        query = chosen.query(reached.policy, wanted & group, limit=max(room, 1))
        if query.statuses and room > 0:
            tasks += client.query(query)
    return tasks[:limit], len(tasks) > limit
