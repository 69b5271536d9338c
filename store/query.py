"""Which tasks to read: every condition is pushed down to the store and served by an index."""

from dataclasses import dataclass
from datetime import datetime

from chong.store.errors import ConfigurationError
from chong.store.states import FINAL, Status

MAX_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Conditions that all have to hold; None means "any". The order is newest first, by id.

    buckets: the task's bucket is among these (keyless tasks match only None).
    tags: the task has every one of them.
    since: created at or after this time.
    before: only tasks whose id is smaller; pass the last id of a page to get the next one (keyset paging).
    """

    buckets: frozenset[int] | None = None
    statuses: frozenset[Status] | None = None
    names: frozenset[str] | None = None
    tags: frozenset[str] = frozenset()
    node: str | None = None
    key: str | None = None
    group: str | None = None
    ids: frozenset[str] | None = None
    since: datetime | None = None
    before: str | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ConfigurationError(f"limit: expected 1 to {MAX_LIMIT}, got {self.limit}")
        if self.since is not None and self.since.tzinfo is None:
            raise ConfigurationError("since: expected a time with a zone, got one without")

    @property
    def is_open(self) -> bool:
        """Whether it asks for open tasks alone: the few among the many that have ended."""
        return self.statuses is not None and not self.statuses & FINAL
