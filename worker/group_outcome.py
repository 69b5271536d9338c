"""How a group of tasks stands, as its node tells it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chong.worker.outcome import FINAL


@dataclass(frozen=True, slots=True)
class Member:
    """One call of the plan. `status` is that of its task, or `unknown` while the node looks for it."""

    id: str
    name: str
    status: str
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """`status`: `running` until all members are over; then `succeeded` when all of them are, else the worst of theirs.

    members: in the order of the plan. facts: everything that the node told, with the plan as JSON.
    """

    id: str
    status: str
    members: tuple[Member, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_final(self) -> bool:
        """Whether all its members are over."""
        return self.status in FINAL


def group_outcome_of(group: Mapping[str, Any]) -> GroupOutcome:
    """From a node's JSON; KeyError, TypeError or AttributeError when that is no group."""
    return GroupOutcome(id=group["id"], status=group["status"], members=tuple(_members(group["plan"])), facts=group)


def _members(part: Mapping[str, Any]) -> Iterator[Member]:
    if "call" in part:
        yield Member(part["id"], part["call"], part["status"], part.get("key"))
        return
    for inner in part["group"] if "group" in part else part["pipeline"]:
        yield from _members(inner)
