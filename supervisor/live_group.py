"""A group whose members are not all over, as its node knows it; and what a group comes to."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chong.store.states import Status
from chong.supervisor.group_machine import Machine
from chong.supervisor.members import member_id
from chong.worker.plan import Call, Group, Pipeline, Plan

OPEN = "running"
UNKNOWN = "unknown"
"""The status of a member that is not in the node's hands, and whose end it has not heard of."""
_WORST = (Status.FAILED, Status.LOST, Status.STOPPED, Status.CANCELLED)


@dataclass(eq=False)
class LiveGroup:
    """ids: of its members. results: what may be handed on still, by member. waiters: told when it is over.

    ends: of members by number, as the machine has heard or is about to hear.
    """

    id: str
    plan: Plan
    accepted_at: float
    """Seconds since the epoch."""
    ends: dict[int, Status] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)
    waiters: list[Callable[[], None]] = field(default_factory=list)
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.machine = Machine(self.plan)
        self.ids = [member_id(self.id, number) for number in range(len(self.machine.calls))]

    @property
    def calls(self) -> list[Call]:
        return [part.plan for part in self.machine.calls if isinstance(part.plan, Call)]


def status_of(statuses: Iterable[str]) -> str:
    """What a group has come to by those of its members: `running`, `succeeded`, or the worst end."""
    found = set(statuses)
    if not found <= {status.value for status in Status if status.is_final}:
        return OPEN
    worst = next((status for status in _WORST if status in found), Status.SUCCEEDED)
    return (Status.STOPPED if worst is Status.CANCELLED else worst).value


def group_facts(
    group_id: str, plan: Plan, accepted_at: float, ended_at: float | None, statuses: Mapping[str, str]
) -> dict[str, Any]:
    """As the node tells of a group: the plan, with the id and the status of each call in it. `statuses`: by member."""
    number = 0

    def tree(part: Plan) -> dict[str, Any]:
        nonlocal number
        if isinstance(part, Call):
            id_, number = member_id(group_id, number), number + 1
            told = {"call": part.name, "id": id_, "status": statuses.get(id_, UNKNOWN)}
            return told | {name: value for name in ("key", "into") if (value := getattr(part, name)) is not None}
        members = [tree(member) for member in part.members]
        if isinstance(part, Pipeline):
            return {"pipeline": members}
        limits = {"fail_fast": True} if part.fail_fast else {}
        return {"group": members, **limits, **_most(part)}

    whole = tree(plan)
    status = status_of(statuses.get(member_id(group_id, each), UNKNOWN) for each in range(number))
    return {
        "id": group_id,
        "status": status,
        "created_at": _moment(accepted_at),
        "ended_at": None if ended_at is None else _moment(ended_at),
        "plan": whole,
    }


def _most(group: Group) -> dict[str, int]:
    return {} if group.max_parallel is None else {"max_parallel": group.max_parallel}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
