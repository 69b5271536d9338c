"""The state machine of a task: one table, keyed by name.

The documentation page, the SQL checks and the command line's choices are rendered from `MOVES`; nothing else
in chong may list states by hand.
"""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        return self in FINAL

    @property
    def is_waiting(self) -> bool:
        return self in WAITING

    @property
    def is_run(self) -> bool:
        return self in RUNS


WAITING = frozenset({Status.QUEUED, Status.RETRYING})
"""No worker exists; the task waits for a slot."""

RUNS = frozenset({Status.STARTING, Status.RUNNING, Status.PAUSING, Status.PAUSED, Status.STOPPING})
"""A worker may exist; a lease row says who manages it."""

FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.STOPPED, Status.CANCELLED, Status.LOST})
"""Absorbing: a final state never changes."""


@dataclass(frozen=True, slots=True)
class Move:
    """One allowed change of state; `source` is None for a task's first."""

    source: Status | None
    target: Status
    when: str


def _moves(sources: tuple[Status | None, ...], target: Status, when: str) -> tuple[Move, ...]:
    return tuple(Move(source, target, when) for source in sources)


_S = Status
_ON_WORKER = (_S.STARTING, _S.RUNNING, _S.PAUSING, _S.PAUSED, _S.STOPPING)

MOVES: tuple[Move, ...] = (
    *_moves((None,), _S.QUEUED, "accepted by the node that owns the bucket"),
    *_moves((_S.QUEUED, _S.RETRYING), _S.STARTING, "a slot is free; attempt + 1, stored before the fork"),
    *_moves((_S.STARTING,), _S.QUEUED, "user code provably never ran; counted in `unstarted`"),
    *_moves((_S.STARTING,), _S.RUNNING, "the worker reports `started`"),
    *_moves((_S.QUEUED, _S.RETRYING), _S.CANCELLED, "stop before it (re)starts"),
    *_moves((_S.RUNNING,), _S.PAUSING, "pause asked"),
    *_moves((_S.PAUSING,), _S.PAUSED, "the pause is acknowledged at a checkpoint, or the task is frozen"),
    *_moves((_S.PAUSED,), _S.PAUSED, "a paused task is frozen"),
    *_moves((_S.PAUSING, _S.PAUSED), _S.RUNNING, "resume"),
    *_moves((_S.STARTING, _S.RUNNING, _S.PAUSING, _S.PAUSED), _S.STOPPING, "stop asked, or a time-out reached"),
    *_moves((_S.STOPPING,), _S.STOPPING, "the stop is acknowledged, comes during a time-out, or SIGKILL has no effect"),
    *_moves((_S.STOPPING,), _S.STOPPED, "it ended after a stop; `forced` when a signal had to end it"),
    *_moves(_ON_WORKER, _S.SUCCEEDED, "a valid result arrived"),
    *_moves(_ON_WORKER, _S.FAILED, "exception, crash, time-out, invalid result, import error, start time-out"),
    *_moves(
        _ON_WORKER,
        _S.RETRYING,
        "it would be `failed`, the task's rules allow a retry, attempts are left, no stop was asked",
    ),
    *_moves((_S.QUEUED,), _S.FAILED, "the fork was refused too often, or no loaded module defines it any more"),
    *_moves((_S.RETRYING,), _S.FAILED, "no loaded module defines it any more"),
    *_moves(_ON_WORKER, _S.LOST, "its holder is dead: outcome unknown, never re-run by itself"),
    *_moves((_S.QUEUED, _S.RETRYING), _S.LOST, "its submission is gone, or its node was forgotten"),
)

_ALLOWED = frozenset((move.source, move.target) for move in MOVES)


def is_allowed(source: Status | None, target: Status) -> bool:
    return (source, target) in _ALLOWED


def targets(source: Status | None) -> frozenset[Status]:
    return frozenset(move.target for move in MOVES if move.source == source)
