"""Changing a deployment's number of buckets: what has to be so before, and what is kept of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from chong.store.errors import Refused
from chong.store.few import few

Progress = Callable[[int, int], None]
"""Told how many of how many waiting tasks were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebucketing:
    """One change of the number of buckets: `moved` of the `waiting` tasks with a key got another bucket.

    before, after: the numbers of buckets. at: by the store's clock, None where that cannot be read.
    """

    at: datetime | None
    by: str
    reason: str | None
    before: int
    after: int
    waiting: int
    moved: int


def check_at_rest(*, recorded: int | None, live: Sequence[str], runs: int, held: Sequence[str]) -> int:
    """The number as it stands; Refused where nodes, runs or holds still go by it.

    A node that is alive counts by its own number, drained or not. A hold names a bucket whose keys will lie elsewhere:
    nobody can say which new buckets were meant.
    """
    if recorded is None:
        raise Refused("expected a recorded number of buckets, got none: chong --num-buckets N migrate records one")
    if live:
        raise Refused(f"expected no live node, got {few(live)}: end their supervisors first, drained ones too")
    if runs:
        raise Refused(f"expected no open run, got {runs}: chong reconcile calls those of dead nodes lost")
    if held:
        raise Refused(f"expected no held bucket, got {few(held)}: lift it with chong unhold --bucket {held[0]}")
    return recorded
