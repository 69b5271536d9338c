"""One look at a whole deployment: all that can be said of it without another query."""

from dataclasses import dataclass
from datetime import datetime

from chong.store.model import BucketDeclaration, BucketLoad, CatalogueEntry, Deployment, NodeRecord, SharedHold
from chong.store.states import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """Open tasks of one node, bucket, name and status.

    still: how many of the `tasks` have not changed for the span that was asked for. since: when, by the store's
    clock, that one last changed which has stood still for the longest; `task_id` is its id.
    """

    node: str
    bucket: int | None
    name: str
    status: Status
    tasks: int
    still: int
    since: datetime
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCommands:
    """Commands for a node's tasks that nobody holds.

    since: when, by the store's clock, the oldest was stored; `task_id` is its task.
    """

    node: str
    commands: int
    since: datetime
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All parts are of one moment; `now` is the store's clock. engine: which database, `sqlite` or `postgresql`.

    rebucketed_at: when the number of buckets was last changed, by the store's clock; None for never.
    """

    now: datetime
    engine: str
    engine_version: str
    rebucketed_at: datetime | None = None
    deployment: Deployment
    nodes: tuple[NodeRecord, ...]
    declarations: tuple[BucketDeclaration, ...]
    loads: tuple[BucketLoad, ...]
    catalogue: tuple[CatalogueEntry, ...]
    work: tuple[OpenWork, ...]
    commands: tuple[OpenCommands, ...]
    holds: tuple[SharedHold, ...]
