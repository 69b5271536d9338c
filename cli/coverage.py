"""Who owns each bucket, by the nodes' own declarations, and what is open there."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from chong.store.buckets import BucketPolicy
from chong.store.model import BucketDeclaration, BucketLoad, NodeRecord


class Cover(StrEnum):
    OK = "OK"
    DUPLICATE = "DUPLICATE"
    UNCOVERED = "UNCOVERED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """`bucket` is None for keyless work; `live_owner` the first of `owners` that is alive; `hold` why work waits."""

    bucket: int | None
    owners: tuple[str, ...]
    live_owner: str | None
    state: Cover
    queued: int
    running: int
    expired: int
    oldest_wait: timedelta | None
    mine: bool
    hold: str | None = None


@dataclass(frozen=True, slots=True)
class Owners:
    """Nodes by bucket, and the nodes without partition, which own every bucket and all keyless work."""

    by_bucket: dict[int, list[str]]
    everywhere: list[str]
    live: frozenset[str]

    def of(self, bucket: int | None) -> tuple[str, ...]:
        declared = self.by_bucket.get(bucket, []) if bucket is not None else []
        return (*declared, *self.everywhere)

    def state(self, bucket: int | None) -> Cover:
        if not self.of(bucket):
            return Cover.UNCOVERED
        # A node without partition beside others is a way to run, e.g. while one moves to a partition.
        is_duplicate = bucket is not None and len(self.by_bucket.get(bucket, [])) > 1
        return Cover.DUPLICATE if is_duplicate else Cover.OK


def owners_of(policy: BucketPolicy, declared: Sequence[BucketDeclaration], nodes: Sequence[NodeRecord]) -> Owners:
    by_node: defaultdict[str, set[int]] = defaultdict(set)
    for claim in declared:
        by_node[claim.node].add(claim.bucket)
    partitioned = {node for node, buckets in by_node.items() if len(buckets) < policy.num_buckets}
    by_bucket: defaultdict[int, list[str]] = defaultdict(list)
    for node in sorted(partitioned):
        for bucket in by_node[node]:
            by_bucket[bucket].append(node)
    known = {node.node for node in nodes} | set(by_node)
    return Owners(
        by_bucket=dict(by_bucket),
        everywhere=sorted(known - partitioned),
        live=frozenset(node.node for node in nodes if node.is_live),
    )


def bucket_rows(
    policy: BucketPolicy, owners: Owners, loads: Sequence[BucketLoad], is_mine: Callable[[int | None], bool]
) -> list[BucketRow]:
    """Every bucket, as soon as there is a node; before that those with open work."""
    by_bucket = {load.bucket: load for load in loads}
    shown: set[int | None] = set(by_bucket)
    if owners.by_bucket or owners.everywhere:
        shown |= set(range(policy.num_buckets))
    ordered = sorted(shown, key=lambda bucket: -1 if bucket is None else bucket)
    return [_row(bucket, owners, by_bucket.get(bucket), mine=is_mine(bucket)) for bucket in ordered]


def _row(bucket: int | None, owners: Owners, load: BucketLoad | None, *, mine: bool) -> BucketRow:
    load = load or BucketLoad(bucket, 0, 0, 0, None)
    names = owners.of(bucket)
    return BucketRow(
        bucket=bucket,
        owners=names,
        live_owner=next((name for name in names if name in owners.live), None),
        state=owners.state(bucket),
        queued=load.queued,
        running=load.running,
        expired=load.expired,
        oldest_wait=load.oldest_wait,
        mine=mine,
    )
