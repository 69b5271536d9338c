"""How a task stands, as its node tells it: for programs on the node, and for tests of tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FINAL = frozenset({"succeeded", "failed", "stopped", "cancelled", "lost"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: `kind` is one of the kinds of failure, `cause` an exception's type or the like."""

    kind: str
    cause: str
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`result` is what the task returned. stopped_by, stop_reason: whose stop it was, once one was asked for.

    facts: everything that the node told, by the names of `chong show --json`.
    """

    id: str
    name: str
    status: str
    key: str | None = None
    attempt: int = 0
    result: Any = None
    failure: Failure | None = None
    stopped_by: str | None = None
    stop_reason: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_final(self) -> bool:
        """Whether the task is over."""
        return self.status in FINAL


def outcome_of(task: Mapping[str, Any]) -> Outcome:
    """From a node's JSON; KeyError, TypeError or AttributeError when that is no task."""
    failure, stop = task.get("failure"), task.get("stop") or {}
    return Outcome(
        id=task["id"],
        name=task["name"],
        status=task["status"],
        key=task.get("bucket_key"),
        attempt=task.get("attempt", 0),
        result=task.get("outcome"),
        failure=None if failure is None else failure_of(failure),
        stopped_by=stop.get("by"),
        stop_reason=stop.get("reason"),
        facts=task,
    )


def failure_of(facts: Mapping[str, Any]) -> Failure:
    """Of what is missing nothing was said."""
    return Failure(*(str(facts.get(name) or "") for name in ("kind", "cause", "message", "traceback")))
