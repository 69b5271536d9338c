"""What a program on the node wants of one task: to know how it stands, to hear of its end, or that it stops."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chong.store.errors import ConfigurationError
from chong.store.ids import SHOWN
from chong.supervisor.operations import Settled
from chong.supervisor.submission import REASON_LIMIT, check_id, check_text
from chong.worker.options import NAME_LIMIT


class Wanted(StrEnum):
    GET = "get"
    WAIT = "wait"
    STOP = "stop"


@dataclass(eq=False, slots=True)
class Inquiry:
    """by, reason: of a stop. version: the one whose storing settles a stop, once it was asked for."""

    wanted: Wanted
    task_id: str
    settled: Settled
    by: str = ""
    reason: str | None = None
    version: int | None = None


def inquiry_of(wanted: Wanted, request: dict[str, Any], settled: Settled) -> Inquiry:
    """ConfigurationError for what does not say which task is meant, or who asks for a stop."""
    known = {"id", "by", "reason"} if wanted is Wanted.STOP else {"id"}
    strangers = sorted(set(request) - known)
    if strangers:
        got = ", ".join(map(repr, strangers))[:SHOWN]
        raise ConfigurationError(f"{wanted}: expected {', '.join(sorted(known))}, got {got}")
    task_id, by, reason = request.get("id"), request.get("by"), request.get("reason")
    check_id("id", task_id)
    if wanted is Wanted.STOP:
        check_text("by", by, NAME_LIMIT)
    if reason is not None:
        check_text("reason", reason, REASON_LIMIT)
    return Inquiry(wanted, str(task_id), settled, by=by or "", reason=reason)
