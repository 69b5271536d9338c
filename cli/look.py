"""Commands that look at tasks."""

from typing import Any

import click

from chong.cli.candidates import ids
from chong.cli.definition import memory_limit_text
from chong.cli.facts import fact_lines
from chong.cli.filters import Filter, filtered
from chong.cli.find import find_one
from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import Reached, reach
from chong.cli.screen import print_json, print_lines, print_table, remark, shows_colour
from chong.cli.shared_hold import remark_stranger
from chong.cli.standing import Standing, standings
from chong.cli.taskrow import COLUMNS as TASK_COLUMNS
from chong.cli.taskrow import task_row
from chong.cli.times import utc_now
from chong.cli.trail import COLUMNS as TRAIL_COLUMNS
from chong.cli.trail import trail_json, trail_rows
from chong.store.contract import TaskStore
from chong.store.model import TaskSnapshot
from chong.store.query import MAX_LIMIT
from chong.store.states import FINAL, RUNS, WAITING, Status
from chong.store.view import as_json as view_of
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
        return print_json([_row(task, standing) for task, standing in zip(tasks, known, strict=True)])
    now = utc_now()
    rows = [task_row(task, now, standing, full_id=full_id) for task, standing in zip(tasks, known, strict=True)]
    print_table(TASK_COLUMNS, rows)
    if more:
        remark(f"only the first {limit} are shown; raise --limit, or choose by --name, --status, --bucket …")
    return None


def _row(task: TaskSnapshot, standing: Standing) -> dict[str, Any]:
    """The snapshot, and whether it is still true: nobody changes it when its holder is gone."""
    judged = {"lease_is_past": standing.lease_is_past, "node_is_live": standing.node_is_live}
    return {**view_of(task), **judged}


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


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids())
@json_option
@click.pass_obj
def show(call: Invocation, part: str, *, as_json: bool) -> None:
    """Show one task with all that is known about it.

    ID may be the beginning or the end of the task's id. Times are UTC.
    """
    with reach(call) as reached:
        task = find_one(reached.store, part)
        commands = reached.store.commands(task.id)
        standing = standings(reached.store, [task])[0]
        trail = reached.store.history(task.id)
        limit = _memory_limit(reached.store, task)
    if as_json:
        return print_json({**_row(task, standing), "commands": commands, "hold": standing.hold})
    lines = fact_lines(task, commands, standing, trail, utc_now(), memory_limit=limit, colour=shows_colour())
    return print_lines(lines)


def _memory_limit(store: TaskStore, task: TaskSnapshot) -> str | None:
    """By the definition that the node has published last: a run's own options are kept nowhere."""
    entries = (entry for entry in store.catalogue(task.node) if entry.name == task.name)
    return next((memory_limit_text(entry.options) for entry in entries), None)


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids())
@json_option
@click.pass_obj
def history(call: Invocation, part: str, *, as_json: bool) -> None:
    """Show the audit trail of one task.

    The text form also has the notes, which change no state. Versions rise, and an adoption, which is a note, takes one
    as well. Times are UTC.
    """
    with reach(call) as reached:
        task = find_one(reached.store, part)
        transitions = reached.store.history(task.id)
        notes = reached.store.notes(task.id)
    if as_json:
        return print_json(trail_json(transitions))
    return print_table(TRAIL_COLUMNS, trail_rows(transitions, notes))
