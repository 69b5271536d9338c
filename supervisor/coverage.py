"""Who owns each bucket, by the nodes' own declarations, and which of them are alive."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from chong.store.model import BucketDeclaration, NodeRecord


class Cover(StrEnum):
    OK = "OK"
    DUPLICATE = "DUPLICATE"
    UNCOVERED = "UNCOVERED"


@dataclass(frozen=True, slots=True)
class Owners:
    """Nodes by bucket, and the nodes without partition, which own every bucket and all keyless work."""

    by_bucket: dict[int, list[str]]
    everywhere: list[str]
    live: frozenset[str]

    def of(self, bucket: int | None) -> tuple[str, ...]:
        return (*self.declared(bucket), *self.everywhere)

    def declared(self, bucket: int | None) -> tuple[str, ...]:
        """Without the nodes that own everything."""
        return () if bucket is None else tuple(self.by_bucket.get(bucket, ()))

    def live_owners(self, bucket: int | None) -> tuple[str, ...]:
        return tuple(name for name in self.of(bucket) if name in self.live)

    def state(self, bucket: int | None) -> Cover:
        """A bucket is uncovered when nobody runs its work now, whoever has declared it."""
        if not self.live_owners(bucket):
            return Cover.UNCOVERED
        # A node without partition beside others is a way to run, e.g. while one moves to a partition.
        return Cover.DUPLICATE if len(self.declared(bucket)) > 1 else Cover.OK


def dropped_of(
    nodes: Sequence[NodeRecord], declared: Sequence[BucketDeclaration], rebucketed_at: datetime | None
) -> frozenset[str]:
    """The nodes whose declaration a rebucket has dropped: until they start again nobody knows what they own."""
    if rebucketed_at is None:
        return frozenset()
    known = {claim.node for claim in declared}
    return frozenset(
        node.node
        for node in nodes
        # Both moments are by the store's clock; whoever has registered since then has declared its buckets anew.
        if node.node not in known and not node.is_live and (node.seen_at is None or node.seen_at <= rebucketed_at)
    )


def owners_of(
    num_buckets: int,
    declared: Sequence[BucketDeclaration],
    nodes: Sequence[NodeRecord],
    *,
    live: Collection[str] | None = None,
    dropped: Collection[str] = (),
) -> Owners:
    """`live`: who counts as alive, where that is not those that the store has judged so. `dropped`: by `dropped_of`."""
    by_node: defaultdict[str, set[int]] = defaultdict(set)
    for claim in declared:
        by_node[claim.node].add(claim.bucket)
    partitioned = {node for node, buckets in by_node.items() if len(buckets) < num_buckets}
    by_bucket: defaultdict[int, list[str]] = defaultdict(list)
    for node in sorted(partitioned):
        for bucket in by_node[node]:
            by_bucket[bucket].append(node)
    known = {node.node for node in nodes} | set(by_node)
    return Owners(
        by_bucket=dict(by_bucket),
        everywhere=sorted(known - partitioned - set(dropped)),
        live=frozenset(node.node for node in nodes if node.is_live) if live is None else frozenset(live),
    )
