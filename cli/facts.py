"""All that is known about one task, in groups."""

import itertools
from collections.abc import Sequence
from datetime import datetime

from chong.cli.attempts import attempt_lines, attempts_of
from chong.cli.ending import end_text
from chong.cli.moments import latest, moments_of, moments_of_stop
from chong.cli.render import block, json_text, sheet
from chong.cli.standing import Standing, due_text, mark_of
from chong.cli.taskrow import progress_text, ran_for
from chong.cli.times import ago, span, stamp
from chong.store.model import Command, Failure, TaskSnapshot, Transition
from chong.store.states import WAITING, Status
from chong.supervisor.verdict import OOM, signal_name

Fact = tuple[str, str | None]
TIMEOUT = "timeout"
"""The reason of a change by which a run is ended that has had its time."""
_MEBIBYTE = 1024 * 1024


def fact_lines(
    task: TaskSnapshot,
    commands: Sequence[Command],
    standing: Standing,
    trail: Sequence[Transition],
    now: datetime,
    *,
    memory_limit: str | None,
    colour: bool,
) -> list[str]:
    """`trail`: all its changes of state. `memory_limit`: as its definition says now."""
    groups: list[tuple[str, list[Fact]]] = [
        (f"task {task.id}", _identity(task, standing, now)),
        ("state", _state(task, standing, trail[-1].reason if trail else None, now)),
        ("attempt", [*_attempt(task, now), ("timeout", _lateness(task, trail))]),
        ("attempts", attempt_lines(attempts_of(trail), task)),
        ("resolved", _resolved(standing)),
        ("stop", [] if task.stop is None else moments_of_stop(task.stop, is_over=task.status.is_final).facts()),
        *((command.action.value, moments_of(command, trail).facts()) for command in latest(commands, trail)),
        ("commands", [(command.action.value, _command(command, standing)) for command in commands]),
        ("failure", _failure(task, memory_limit)),
    ]
    lines = sheet(groups, colour=colour)
    if task.failure is not None and task.failure.traceback:
        lines += block(task.failure.traceback.rstrip("\n"), "    ")
    if task.outcome is not None or task.status is Status.SUCCEEDED:
        lines += ["", "outcome", *block(json_text(task.outcome))]
    return lines


def _identity(task: TaskSnapshot, standing: Standing, now: datetime) -> list[Fact]:
    return [
        ("name", task.name),
        ("key", task.bucket_key),
        ("bucket", None if task.bucket is None else str(task.bucket)),
        ("node", _beside(task.node, standing.node_text(now))),
        ("priority", str(task.priority)),
        ("run timeout", None if task.run_timeout is None else f"{span(task.run_timeout)}, said with its submission"),
        ("tags", ", ".join(sorted(task.tags)) or None),
        ("trigger", task.trigger),
        ("unique key", task.unique_key),
        ("group", task.group_id),
        ("created", stamp(task.created_at)),
    ]


def _state(task: TaskSnapshot, standing: Standing, reason: str | None, now: datetime) -> list[Fact]:
    return [
        ("status", _beside(task.status.value, mark_of(task, standing, now))),
        ("end", end_text(task)),
        ("hold", standing.hold),
        ("due", _beside(stamp(task.due_at), due_text(task, now)) if task.status in WAITING else None),
        ("reason", None if _tells_failure(task) else reason),
        ("since", ago(task.status_changed_at, now)),
        ("version", str(task.version)),
        ("flags", ", ".join(sorted(task.flags)) or None),
        ("held by", task.lease_owner),
        ("lease until", _beside(stamp(task.lease_until), standing.lease_text(now))),
    ]


def _resolved(standing: Standing) -> list[Fact]:
    found = standing.resolved
    if found is None:
        return []
    return [("as", found.verdict), ("by", found.by), ("at", stamp(found.at)), ("reason", found.reason)]


def _beside(value: str | None, remark: str | None) -> str | None:
    return f"{value} ({remark})" if value and remark else value


def _tells_failure(task: TaskSnapshot) -> bool:
    """The reason of such a change is the failure once more."""
    return task.failure is not None and task.status in {Status.FAILED, Status.RETRYING}


def _attempt(task: TaskSnapshot, now: datetime) -> list[Fact]:
    ran = ran_for(task, now)
    return [
        ("attempt", f"{task.attempts_used} of {task.max_attempts}"),
        ("run", task.run if task.attempt else None),
        ("never started", str(task.unstarted) if task.unstarted else None),
        ("started", stamp(task.started_at)),
        ("ended", stamp(task.ended_at)),
        ("ran", None if ran is None else span(ran)),
        ("heartbeat", ago(task.last_heartbeat_at, now)),
        ("progress", progress_text(task.progress)),
        ("usage", _usage(task)),
        ("exit code", None if task.exit_code is None else str(task.exit_code)),
        ("exit signal", None if (number := task.exit_signal) is None else f"{number} ({signal_name(number)})"),
        ("forced", _forcing(task) if task.forced else None),
    ]


def _lateness(task: TaskSnapshot, trail: Sequence[Transition]) -> str | None:
    """A result counts all the same; nothing but the trail knows then that its run was being ended."""
    steps = itertools.takewhile(lambda step: step.target is not Status.STARTING, reversed(trail))
    is_late = any((step.target, step.reason) == (Status.STOPPING, TIMEOUT) for step in steps)
    return "was over before the result came" if is_late and task.status is Status.SUCCEEDED else None


def _forcing(task: TaskSnapshot) -> str:
    """Beside an exit code the bare word would be a riddle."""
    if task.exit_signal is not None:
        return f"yes, {signal_name(task.exit_signal)} had to end it"
    if task.exit_code is None:
        return "yes, a signal had to end it"
    return f"yes, SIGTERM was needed; it bore that and ended by itself with exit code {task.exit_code}"


def _usage(task: TaskSnapshot) -> str | None:
    """What a run has in memory now is said only while there is one."""
    usage = task.usage
    if usage is None:
        return None
    parts = [f"{usage.cpu_seconds:.1f} s CPU"]
    if usage.rss_bytes is not None and task.status.is_run:
        parts.append(f"{usage.rss_bytes / _MEBIBYTE:.1f} MiB in memory now")
    if usage.max_rss_bytes is not None:
        parts.append(f"{usage.max_rss_bytes / _MEBIBYTE:.1f} MiB at most")
    return ", ".join(parts)


def _command(command: Command, standing: Standing) -> str:
    stored = "" if command.stored_at is None else f" (stored {stamp(command.stored_at)})"
    text = f"{stamp(command.issued_at)}{stored} by {command.issued_by}"
    if command.reason:
        text += f" ({command.reason})"
    if command.finished_at is not None:
        text += f": {command.outcome} {stamp(command.finished_at)}"
        return f"{text}, {command.detail}" if command.detail else text
    if command.claimed_by:
        return f"{text}: claimed by {command.claimed_by}"
    return f"{text}: not yet taken up{_PENDING.get(standing.node_state, '')}"


_PENDING = {
    "down": ", the node acts on it when it is back",
    "silent": ", the node acts on it when it is back",
    "forgotten": ", chong reconcile judges the run and closes it",
}
"""Who will end a request that nobody can take up now, by what its node is."""


def _failure(task: TaskSnapshot, memory_limit: str | None) -> list[Fact]:
    failure = task.failure
    if failure is None:
        return []
    facts: list[Fact] = [("kind", failure.kind.value), ("cause", failure.cause), ("message", failure.message)]
    if memory_limit is not None and _wanted_memory(failure):
        facts.append(("memory limit", f"{memory_limit} (as the task is defined now)"))
    return facts


def _wanted_memory(failure: Failure) -> bool:
    """Libraries have a MemoryError of their own, like numpy's _ArrayMemoryError."""
    return failure.cause == OOM or failure.cause.endswith("MemoryError")
