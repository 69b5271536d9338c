"""The members of a group as submissions: a task of its own for each call, with an id that the group's tells."""

import hashlib
from collections.abc import Iterator
from uuid import UUID

from chong.store.errors import ConfigurationError
from chong.store.ids import id_at
from chong.supervisor.submission import Submission
from chong.worker.plan import Call, Plan, calls_of

TRIGGER = "group"
_NUMBER_BITS = 14
"""Enough for as many calls as a plan may have: their tasks are listed in the order of the plan."""
_REST_BITS = 60
_MARKED = 62
"""Bits of the rest of an id behind its variant; what lies before that has its version in it."""


def member_id(group_id: str, number: int) -> str:
    """The same whoever computes it, so that a group which is submitted again is the same group."""
    milliseconds = UUID(group_id).int >> 80
    drawn = hashlib.sha256(f"{group_id} {number}".encode()).digest()[:8]
    rest = number << _REST_BITS | int.from_bytes(drawn, "big") >> (64 - _REST_BITS)
    placed = (rest >> _MARKED) << 64 | rest & ((1 << _MARKED) - 1)
    return id_at(milliseconds, placed.to_bytes(10, "big"))


def members_of(group_id: str, plan: Plan) -> Iterator[tuple[Call, Submission]]:
    """In their order; ConfigurationError with the number of the call that could be none."""
    for number, call in enumerate(calls_of(plan)):
        try:
            yield call, _submission(group_id, number, call)
        except ConfigurationError as error:
            raise ConfigurationError(f"{told(number, call)}: {error}") from None


def told(number: int, call: Call) -> str:
    """A call in words, as people count."""
    return f"call {number + 1} ({call.name[:60]!r})"


def _submission(group_id: str, number: int, call: Call) -> Submission:
    return Submission(
        name=call.name,
        key=call.key,
        params=call.params,
        trigger=TRIGGER,
        id=member_id(group_id, number),
        priority=call.priority,
        retries=call.retries,
        run_timeout=call.run_timeout,
        group_id=group_id,
    )
