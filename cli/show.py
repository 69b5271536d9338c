"""`chong show` and `chong history`: all that is known about one task."""

from collections.abc import Sequence
from typing import Any

import click

from chong.cli.attempts import attempts_of
from chong.cli.candidates import ids
from chong.cli.definition import memory_limit_text
from chong.cli.facts import fact_lines
from chong.cli.find import AmbiguousId, find_one
from chong.cli.invocation import Invocation
from chong.cli.moments import moments_of
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.screen import print_json, print_lines, print_table, shows_colour
from chong.cli.show_group import show_group
from chong.cli.standing import standings
from chong.cli.taskrow import task_json
from chong.cli.times import utc_now
from chong.cli.trail import columns_of, trail_json, trail_rows
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import Action, Command, TaskSnapshot, Transition
from chong.store.view import as_json as view_of


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids())
@json_option
@click.pass_obj
def show(call: Invocation, part: str, *, as_json: bool) -> None:
    """Show one task with all that is known about it, or a group.

    A group is shown as a tree on its own node; elsewhere, by its whole id, as a list of its members.

    Of a task's stop, its last pause or freeze, and the resume after it, it says when they were asked, delivered,
    acknowledged and in effect; --json has that of each pause, freeze and resume. Of several attempts it says how each
    ended, how long it ran and what it used.

    ID may be the beginning or the end of the id. Times are UTC.
    """
    with reach(call) as reached:
        try:
            task = find_one(reached.store, part)
        except AmbiguousId:
            raise
        except Refused:
            if show_group(call, reached.store, part, as_json=as_json):
                return None
            raise
        commands = reached.store.commands(task.id)
        standing = standings(reached.store, [task])[0]
        trail = reached.store.history(task.id)
        limit = _memory_limit(reached.store, task)
    if as_json:
        told = [_with_moments(command, trail) for command in commands]
        attempts = [attempt.as_fields() for attempt in attempts_of(trail)]
        facts = {"commands": told, "hold": standing.hold, "attempts": attempts}
        return print_json({**task_json(task, standing), **facts})
    lines = fact_lines(task, commands, standing, trail, utc_now(), memory_limit=limit, colour=shows_colour())
    return print_lines(lines)


def _with_moments(command: Command, trail: Sequence[Transition]) -> dict[str, Any]:
    """Those of a stop stand with the task."""
    moments = {} if command.action is Action.STOP else moments_of(command, trail).as_fields()
    return {**view_of(command), **moments}


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

    Where a change ends an attempt, it says how. The text form also has the notes, which change no state. Versions rise,
    and an adoption, which is a note, takes one as well. Times are UTC.
    """
    with reach(call) as reached:
        task = find_one(reached.store, part)
        transitions = reached.store.history(task.id)
        notes = reached.store.notes(task.id)
    if as_json:
        return print_json(trail_json(transitions))
    attempts = attempts_of(transitions)
    return print_table(columns_of(attempts), trail_rows(transitions, notes, attempts))
