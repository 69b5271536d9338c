"""`chong resolve`: what somebody has found out of a lost task, kept with it as a note."""

import uuid
from typing import Any

import click

from chong.cli.candidates import ids
from chong.cli.find import TAIL, find_one
from chong.cli.invocation import Invocation
from chong.cli.option import json_option, reason_option, resolver_option
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import print_json
from chong.cli.times import utc_now
from chong.cli.values import reads
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.model import TaskSnapshot
from chong.store.resolution import VERDICTS, Resolution, note_of
from chong.store.states import Status
from chong.supervisor.nearest import suggestion

_WORDS = [verdict.value for verdict in VERDICTS]
_EXPECTED = f"expected {' or '.join(_WORDS)}"


def _verdict(text: str) -> str:
    if text not in _WORDS:
        raise ValueError(f"unknown verdict {text!r}; {suggestion(text, _WORDS, _EXPECTED)}")
    return text


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids(lambda: [Status.LOST]))
@click.option(
    "--as",
    "verdict",
    metavar="|".join(_WORDS),
    required=True,
    callback=reads(_verdict),
    help="What its run came to, as you have found out.",
)
@reason_option("kept with the verdict")
@resolver_option
@json_option
@click.pass_obj
def resolve(call: Invocation, part: str, *, verdict: str, reason: str | None, issued_by: str, as_json: bool) -> None:
    """Say what became of a lost task.

    The task stays lost, as nobody watched it end; the verdict stands beside that, with who said it and why. A further
    one takes its place, and both stay in the history. Needs the store alone, wherever the task's node is.
    """
    resolution = Resolution(verdict=verdict, by=issued_by, at=utc_now(), reason=reason)
    with reach(call) as reached:
        task = find_one(reached.store, part)
        if task.status is not Status.LOST:
            raise Refused(f"task {task.id}: expected a lost one, got one that is {task.status}")
        _keep(reached.store, task, resolution)
    if as_json:
        return print_json(_shown(task, resolution))
    return print(escape(f"{task.id[-TAIL:]} {task.name}: lost (resolved: {verdict})"))


def _keep(store: TaskStore, task: TaskSnapshot, resolution: Resolution) -> None:
    note = note_of(resolution, task.id, f"resolve.{uuid.uuid4().hex}")
    store.append([note])
    if all(kept.event_id != note.event_id for kept in store.notes(task.id)):
        raise Refused(f"task {task.id}: was removed meanwhile")


def _shown(task: TaskSnapshot, resolution: Resolution) -> dict[str, Any]:
    return {"id": task.id, "status": task.status, "resolved": resolution}
