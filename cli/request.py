"""Asking for a stop, pause, freeze or resume of some tasks, and, when wanted, waiting until it came about."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from chong.cli.ending import one_line
from chong.cli.filters import Filter
from chong.cli.find import TAIL, find_one
from chong.cli.moments import UNCHANGED, moments_of, moments_of_stop
from chong.cli.reach import Reached
from chong.cli.render import escape
from chong.cli.screen import remark
from chong.cli.times import span, utc_now
from chong.cli.wait import wait_until
from chong.store.contract import TaskStore
from chong.store.errors import Refused, StoreUnavailable
from chong.store.model import Action, Command, NodeRecord, TaskSnapshot, Transition
from chong.store.pages import PAGE, all_tasks
from chong.store.states import RUNS, WAITING, Status
from chong.supervisor.client import Client
from chong.supervisor.exits import Exit
from chong.supervisor.flags import FROZEN

_OPEN_TO = {
    Action.STOP: RUNS | WAITING,
    Action.PAUSE: RUNS - {Status.STOPPING},
    Action.FREEZE: RUNS - {Status.STOPPING},
    Action.RESUME: RUNS - {Status.STOPPING},
}


@dataclass(frozen=True, slots=True)
class Request:
    """`timeout`: seconds to wait until it came about, None for not waiting."""

    action: Action
    issued_by: str
    reason: str | None
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """What became of a request: whether it came about, and in a few words how."""

    came_about: bool
    text: str


def targets(reached: Reached, action: Action, parts: tuple[str, ...], chosen: Filter) -> list[TaskSnapshot]:
    """The tasks that are meant; each id has to fit one task before anything is asked of any."""
    if parts and not chosen.is_empty:
        raise click.UsageError("expected either ids or filters, got both")
    if parts:
        found = [find_one(reached.store, part) for part in parts]
        return list({task.id: task for task in found}.values())
    if chosen.is_empty:
        raise click.UsageError("expected ids, or at least one filter like --name or --bucket")
    return _matching(reached, action, chosen)


def _matching(reached: Reached, action: Action, chosen: Filter) -> list[TaskSnapshot]:
    """Those that the filter names, unless it names a status only those that can be asked."""
    statuses = frozenset(chosen.status) or _OPEN_TO[action]
    tasks = list(all_tasks(reached.store, chosen.query(reached.policy, statuses, limit=PAGE)))
    if not tasks:
        raise Refused(f"no task that could be asked to {action} fits these filters")
    return tasks


def carry_out(reached: Reached, request: Request, tasks: list[TaskSnapshot]) -> Exit:
    """Ask for everything first, so that waiting for one task holds up no other."""
    commands: list[Command] = []
    try:
        refused = _ask(reached.store, request, tasks, commands)
        if request.timeout is None:
            _print_requested(reached.store, request.action, commands)
            return Exit.REFUSED if refused else Exit.DONE
        end = time.monotonic() + request.timeout
        wait_until(lambda: _warn_of_silent_nodes(reached.store, commands), timeout=request.timeout)
        effects = [_await(reached.store, request, command, end) for command in commands]
    except StoreUnavailable:
        for command in commands:
            remark(f"chong: {command.task_id[-TAIL:]}: {command.action} was requested, which stands")
        raise
    return Exit.REFUSED if refused or not all(effects) else Exit.DONE


def _ask(store: TaskStore, request: Request, tasks: list[TaskSnapshot], commands: list[Command]) -> bool:
    """Fill `commands` with what was asked for; True when something was refused."""
    client = Client(store, issued_by=request.issued_by)
    refused = False
    for task in tasks:
        try:
            commands.append(getattr(client, request.action.value)(task.id, request.reason))
        except Refused as refusal:
            refused = True
            remark(f"chong: {escape(str(refusal))}")
    return refused


def _print_requested(store: TaskStore, action: Action, commands: list[Command]) -> None:
    nodes = {node.node: node for node in store.nodes()}
    for command in commands:
        task = store.get(command.task_id)
        if task is not None:
            silence = _silence(task, nodes.get(task.node))
            print(f"{_who(task)}: {action} requested, now {_status(task)}{silence or _outlook(action, task)}")


def _warn_of_silent_nodes(store: TaskStore, commands: list[Command]) -> bool:
    """Who waits should know for what."""
    nodes = {node.node: node for node in store.nodes()}
    for command, task in [(command, store.get(command.task_id)) for command in commands]:
        silence = "" if task is None else _silence(task, nodes.get(task.node))
        if task is not None and silence:
            remark(f"chong: {_who(task)}: {command.action} requested{silence}")
    return True


def _silence(task: TaskSnapshot, node: NodeRecord | None) -> str:
    """The holder acts on requests; an operator should know when nobody does at the moment."""
    if task.status.is_final or (node is not None and node.is_live):
        return ""
    if node is None:
        return escape(f"; node {task.node} was forgotten: chong reconcile judges the run, and closes the request")
    if node.ended_at is not None:
        return escape(f"; node {task.node} is down and acts on it when it is back")
    since = f" for {span(utc_now() - node.seen_at)}" if node.seen_at is not None else ""
    return escape(f"; node {task.node} has been silent{since} and acts on it when it is back")


_FROM = {
    (Action.PAUSE, Status.STARTING): "it pauses when it has started, at its next checkpoint",
    (Action.PAUSE, Status.RUNNING): "it pauses at its next checkpoint",
    (Action.PAUSE, Status.PAUSING): "it pauses at its next checkpoint",
    (Action.PAUSE, Status.PAUSED): "it is paused already",
    (Action.FREEZE, Status.STARTING): "it is frozen when it has started",
    (Action.RESUME, Status.STARTING): "it goes on, a pause that waits for its start is void",
    (Action.RESUME, Status.RUNNING): "it is not paused",
    (Action.STOP, Status.STOPPING): "it is being stopped already",
}
"""What a request comes to where the bare word would leave a doubt."""


def _outlook(action: Action, task: TaskSnapshot) -> str:
    if action is Action.STOP and FROZEN in task.flags:
        return "; it is thawed first, so that it can clean up"
    if action is Action.FREEZE and FROZEN in task.flags:
        return "; it is frozen already"
    known = _FROM.get((action, task.status))
    return f"; {known}" if known else ""


def _status(task: TaskSnapshot) -> str:
    return f"{task.status} ({FROZEN})" if FROZEN in task.flags else task.status.value


def _await(store: TaskStore, request: Request, command: Command, end: float) -> bool:
    effect = wait_until(lambda: look(store, command), timeout=max(end - time.monotonic(), 0))
    task = store.get(command.task_id)
    who = _who(task) if task else command.task_id
    if effect is None:
        now = f", now {_status(task)}{_delay(request.action, task)}" if task else ""
        remark(f"chong: {who}: {request.action} not in effect after {span(request.timeout or 0)}{now}")
        return False
    if effect.came_about:
        print(f"{who}: {effect.text}")
    else:
        remark(f"chong: {who}: {effect.text}")
    return effect.came_about


def _delay(action: Action, task: TaskSnapshot) -> str:
    if action is Action.PAUSE and task.status is Status.PAUSING:
        return ": it has met no checkpoint yet; --freeze would not wait for one"
    if action is Action.STOP and task.status is Status.STOPPING:
        return "; signals end it when its graces are over"
    return "; the request stands"


def look(store: TaskStore, command: Command) -> Effect | None:
    # The task last: what the others tell has led to what it is then.
    stored, trail = _stored(store, command)
    task = store.get(command.task_id)
    if task is None:
        return Effect(came_about=False, text="the task is gone")
    if task.status.is_final:
        # It may have been done, and the task have ended, since then. Of what has ended nothing changes any more.
        stored, trail = _stored(store, command)
    return effect_of(stored, task, trail)


def _stored(store: TaskStore, command: Command) -> tuple[Command, Sequence[Transition]]:
    """As it stands now, and what the task has gone through; nothing of that before the command is done."""
    stored = next((known for known in store.commands(command.task_id) if known.id == command.id), command)
    return stored, store.history(command.task_id) if stored.finished_at is not None else []


def effect_of(command: Command, task: TaskSnapshot, trail: Sequence[Transition]) -> Effect | None:
    """What became of `command`, by the stored command, the task as it stands and its trail; None while that is open."""
    if task.status.is_final:
        return _end_reached(command, task, trail)
    if command.finished_at is None:
        return None
    if command.outcome in ("refused", "superseded", "too_late"):
        detail = f": {command.detail}" if command.detail else ""
        return Effect(came_about=False, text=escape(f"{command.action} {command.outcome}{detail}"))
    if command.action is Action.STOP:
        return None
    if moments_of(command, trail).came_about:
        return Effect(came_about=True, text=_told(_status(task), command, trail))
    if task.status in WAITING | {Status.STOPPING} or moments_of(command, trail).is_void:
        return Effect(came_about=False, text=f"{command.action} overtaken, now {one_line(task)}")
    return None


def _end_reached(command: Command, task: TaskSnapshot, trail: Sequence[Transition]) -> Effect:
    """A stop wanted the task to be over, and knows that unless it is `lost`; the others wanted it to live on.

    What came about before anybody looked did so, whatever came then.
    """
    if command.action is not Action.STOP:
        if moments_of(command, trail).came_about:
            return Effect(came_about=True, text=_told(one_line(task), command, trail))
        return Effect(came_about=False, text=f"it has ended: {one_line(task)}")
    # By whom it was asked the end says.
    moments = () if task.stop is None else moments_of_stop(task.stop, is_over=True).words()
    return Effect(came_about=task.status is not Status.LOST, text=", ".join((one_line(task), *moments)))


def _told(now: str, command: Command, trail: Sequence[Transition]) -> str:
    moments = moments_of(command, trail)
    asked = f"asked by {command.issued_by}" + (f": {command.reason}" if command.reason else "")
    if moments.was_so:
        return f"{now}, {escape(asked)}, {UNCHANGED}"
    return ", ".join((now, escape(asked), *moments.words()))


def _who(task: TaskSnapshot) -> str:
    return f"{task.id[-TAIL:]} {escape(task.name)}"
