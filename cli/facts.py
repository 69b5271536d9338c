"""All that is known about one task, in groups."""

from collections.abc import Sequence
from datetime import datetime

from chong.cli.render import block, escape, json_text, sheet
from chong.cli.taskrow import cause_text, progress_text, ran_for
from chong.cli.times import ago, span, stamp
from chong.store.model import Command, StopMoments, TaskSnapshot
from chong.store.states import Status

Fact = tuple[str, str | None]
_MEBIBYTE = 1024 * 1024


def fact_lines(
    task: TaskSnapshot,
    commands: Sequence[Command],
    hold: str | None,
    reason: str | None,
    now: datetime,
    *,
    colour: bool,
) -> list[str]:
    """`hold`: why it does not start, where its name is held. `reason`: of its last change of state."""
    groups: list[tuple[str, list[Fact]]] = [
        (f"task {task.id}", _identity(task)),
        ("state", _state(task, hold, reason, now)),
        ("attempt", _attempt(task, now)),
        ("stop", _stop(task.stop)),
        ("commands", [(command.action.value, _command(command)) for command in commands]),
        ("failure", _failure(task)),
    ]
    lines = sheet(groups, colour=colour)
    if task.failure is not None and task.failure.traceback:
        lines += block(task.failure.traceback.rstrip("\n"), "    ")
    if task.outcome is not None or task.status is Status.SUCCEEDED:
        lines += ["", "outcome", *block(json_text(task.outcome))]
    return lines


def _identity(task: TaskSnapshot) -> list[Fact]:
    return [
        ("name", task.name),
        ("key", task.bucket_key),
        ("bucket", None if task.bucket is None else str(task.bucket)),
        ("node", task.node),
        ("priority", str(task.priority)),
        ("tags", ", ".join(sorted(task.tags)) or None),
        ("trigger", task.trigger),
        ("unique key", task.unique_key),
        ("group", task.group_id),
        ("created", stamp(task.created_at)),
    ]


def _state(task: TaskSnapshot, hold: str | None, reason: str | None, now: datetime) -> list[Fact]:
    return [
        ("status", task.status.value),
        ("hold", hold),
        ("reason", reason),
        ("since", ago(task.status_changed_at, now)),
        ("version", str(task.version)),
        ("flags", ", ".join(sorted(task.flags)) or None),
        ("held by", task.lease_owner),
        ("lease until", stamp(task.lease_until)),
    ]


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
        ("exit signal", None if task.exit_signal is None else str(task.exit_signal)),
        ("forced", "yes, a signal had to end it" if task.forced else None),
    ]


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


def _stop(stop: StopMoments | None) -> list[Fact]:
    if stop is None:
        return []
    return [
        ("asked", stamp(stop.asked_at)),
        ("by", stop.by),
        ("reason", stop.reason),
        ("delivered", stamp(stop.delivered_at)),
        ("acknowledged", stamp(stop.acknowledged_at)),
        ("effective", stamp(stop.effective_at)),
    ]


def _command(command: Command) -> str:
    text = f"{stamp(command.issued_at)} by {command.issued_by}"
    if command.reason:
        text += f" ({command.reason})"
    if command.finished_at is not None:
        text += f": {command.outcome} {stamp(command.finished_at)}"
        return f"{text}, {command.detail}" if command.detail else text
    return f"{text}: {'claimed by ' + command.claimed_by if command.claimed_by else 'not yet taken up'}"


def _failure(task: TaskSnapshot) -> list[Fact]:
    failure = task.failure
    if failure is None:
        return []
    facts: list[Fact] = [("kind", failure.kind.value), ("cause", failure.cause), ("message", failure.message)]
    return facts


def one_line(task: TaskSnapshot) -> str:
    """How a task ended, or where it stands, in a few words."""
    cause = cause_text(task.failure)
    return escape(f"{task.status}, {cause}" if cause else task.status.value)
