"""How a run ended: what was asked of it, what it said, and how its process went.

Precedence when several things are true: a complete result, then a stop, then a time-out, then the worker's own
failure, then the exit status.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from chong.store.model import Failure, FailureKind, Usage
from chong.store.states import Status

ORPHANED = "orphaned"
"""The cause of an end that the node brought about itself, because no supervisor came."""

OOM = "oom"
"""The cause of a crash by the kernel, for want of memory."""

BYTES_MOST = 2**63
"""What a store's whole numbers hold."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: a code or a signal; neither when its status was lost with whoever reaped it."""

    code: int | None = None
    signal: int | None = None
    at: datetime | None = None
    """When, where that was seen; None for now."""
    usage: Usage | None = None
    """What the run has used in all, where the kernel told it."""
    oom: bool = False
    """The kernel killed something of the run for want of memory: its own cgroup has counted that."""

    @property
    def is_known(self) -> bool:
        return self.code is not None or self.signal is not None

    @property
    def is_odd(self) -> bool:
        return self.code != 0

    def describe(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal} ({signal_name(self.signal)})"
        return f"exit code {self.code}" if self.code is not None else "an unknown exit status"


@dataclass(frozen=True, slots=True)
class Result:
    """A complete result; `outcome` is the task's JSON value."""

    outcome: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is known about a run when it ends."""

    exit: ProcessEnd
    result: Result | None = None
    failure: Failure | None = None
    stop_asked: bool = False
    timed_out: bool = False
    timeout: float | None = None
    start_timed_out: bool = False
    given_up: bool = False
    """The start was given up before user code could run: its channel was shut, and no `started` was seen."""
    signalled: bool = False
    """The ladder had to use signals."""


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    failure: Failure | None = None
    forced: bool = False
    odd_exit: str | None = None


def judge(evidence: Evidence) -> Verdict:
    """The state that the evidence proves; `queued` when user code provably never ran."""
    if evidence.result is not None:
        odd = evidence.exit.describe() if evidence.exit.is_odd else None
        return Verdict(Status.SUCCEEDED, odd_exit=odd)
    if evidence.stop_asked:
        return Verdict(Status.STOPPED, failure=evidence.failure, forced=_was_forced(evidence))
    if evidence.given_up:
        return Verdict(Status.QUEUED)
    return Verdict(Status.FAILED, failure=_failure(evidence), forced=_was_forced(evidence))


def _was_forced(evidence: Evidence) -> bool:
    """A signal had to end it: ours, or one that a former term had sent before it died."""
    was_told = evidence.stop_asked or evidence.timed_out
    return evidence.signalled or (was_told and evidence.exit.signal is not None)


def _failure(evidence: Evidence) -> Failure:
    if evidence.timed_out:
        limit = "" if evidence.timeout is None else f" of {evidence.timeout:g} s"
        return Failure(FailureKind.TIMEOUT, "timeout", f"the task ran longer than its timeout{limit}")
    if evidence.start_timed_out:
        return Failure(FailureKind.START_TIMEOUT, "start_timeout", "the worker did not start in time")
    return evidence.failure or crashed(evidence.exit)


def crashed(exit_: ProcessEnd) -> Failure:
    """The failure of a process that went without a word."""
    if exit_.oom and exit_.signal == signal.SIGKILL:
        return Failure(FailureKind.CRASHED, OOM, "the kernel killed the worker: the run needed more memory than it has")
    if exit_.signal is not None:
        return Failure(
            FailureKind.CRASHED,
            signal_name(exit_.signal),
            f"the worker was ended by {exit_.describe()}, not asked for by chong",
        )
    if exit_.code is not None:
        return Failure(FailureKind.CRASHED, "no_result", f"the worker ended with {exit_.describe()} and no result")
    return Failure(FailureKind.CRASHED, "exit_unknown", "the worker ended without a result; its exit status is lost")


def usage_of(body: Mapping[str, Any]) -> Usage | None:
    """What a forkserver tells of a run's use; one of another version may not."""
    cpu, most = body.get("cpu_seconds"), body.get("max_rss_bytes")
    if not isinstance(cpu, int | float) or not isinstance(most, int):
        return None
    return Usage(cpu, None, most) if 0 <= cpu < inf and 0 <= most < BYTES_MOST else None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
