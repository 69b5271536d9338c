"""The attempts of one task, each with its end: as its trail tells them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from chong.cli.times import span
from chong.store.model import AttemptEnd, TaskSnapshot, Transition
from chong.store.states import RUNS, Status
from chong.store.view import as_json
from chong.supervisor.verdict import signal_name

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`status`: what the task became at its end, or is now. `version`: of the change that ended it, None while it runs.

    started_at: when user code began, None if it did not. end: what is known of its process.
    """

    number: int
    status: Status
    started_at: datetime | None = None
    ended_at: datetime | None = None
    version: int | None = None
    reason: str | None = None
    end: AttemptEnd

    @property
    def seconds(self) -> float | None:
        """How long it took from the first line of user code; None when that is not known."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0.0, (self.ended_at - self.started_at).total_seconds())

    def as_fields(self) -> dict[str, Any]:
        """For programs."""
        told = {
            "status": self.status,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "seconds": self.seconds,
            "reason": self.reason,
        }
        return {**as_json(self.end), **as_json(told)}

    def facts(self) -> list[str]:
        """For people: exit, length, use; what is not known is left out."""
        end, seconds = self.end, self.seconds
        signal = None if end.exit_signal is None else signal_name(end.exit_signal)
        code = None if end.exit_code is None else f"exit code {end.exit_code}"
        cause = None if end.kind is None else f"{end.kind} {end.cause or ''}".strip()
        most = end.max_rss_bytes
        told = [
            cause,
            signal if signal is not None else code,
            "forced" if end.forced else None,
            None if seconds is None else f"ran {span(seconds)}",
            "never started" if self.ended_at is not None and self.started_at is None else None,
            None if end.cpu_seconds is None else f"{end.cpu_seconds:.1f} s CPU",
            None if most is None else f"{most / _MEBIBYTE:.1f} MiB at most",
        ]
        return [fact for fact in told if fact is not None]


def attempts_of(trail: Sequence[Transition]) -> list[Attempt]:
    """Oldest first; the last one may run still."""
    found: list[Attempt] = []
    for step in trail:
        if step.target is Status.STARTING:
            number = len(found) + 1
            found.append(Attempt(number=number, status=step.target, end=AttemptEnd(attempt=number)))
        elif found and step.source in RUNS:
            found[-1] = _after(found[-1], step)
    return found


def _after(attempt: Attempt, step: Transition) -> Attempt:
    started_at = attempt.started_at or (step.at if step.target is Status.RUNNING else None)
    moved = replace(attempt, status=step.target, started_at=started_at)
    if step.target in RUNS:
        return moved
    end = step.ended or attempt.end
    return replace(moved, ended_at=step.at, version=step.version, reason=step.reason, end=end)


def attempt_lines(attempts: Sequence[Attempt], task: TaskSnapshot) -> list[tuple[str, str | None]]:
    """Where there was more than one; of a single one its task tells all."""
    if task.attempt <= 1:
        return []
    return [(str(attempt.number), ", ".join([attempt.status.value, *attempt.facts()])) for attempt in attempts]
