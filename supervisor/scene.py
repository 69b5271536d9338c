"""What a term knows of its node before it asks the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from chong.store.model import NodeRecord, TermRecord
from chong.supervisor.paths import Paths
from chong.supervisor.submission import Submission
from chong.supervisor.unsent import Unsent


@dataclass(frozen=True, slots=True)
class Scene:
    """What a term knows of its node before it asks the store.

    attached: the runs whose workers are held by forkservers that answered. served: the terms that those forkservers
    had, each with the forkserver's generation. silent: forkservers that live but did not answer.
    """

    term: TermRecord
    node: NodeRecord
    owned_buckets: frozenset[int] | None
    num_buckets: int | None
    ttl: timedelta
    paths: Paths
    attached: frozenset[str]
    served: frozenset[tuple[str, int]]
    silent: frozenset[int]
    accepted: Mapping[str, Submission]
    stored: frozenset[str]
    """Of the accepted ones those that the store has had."""
    unsent: tuple[Unsent, ...] = ()
    """What a former term could not write, in its order."""
    spool_terms: frozenset[str] = frozenset()
    """Who has written to the spool since the last term that met the store, and that one."""
    is_behind: bool | None = None
    """Whether the spool is older than what the store knows of this node; None until they were compared."""
