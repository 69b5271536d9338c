"""Other nodes that have declared buckets which are ours, too: a mistake in some configuration, not refused."""

from dataclasses import dataclass

from chong.store.contract import TaskStore


@dataclass(frozen=True, slots=True)
class Rival:
    """The buckets that both declare; one that is not alive comes back some day, and then both run them."""

    node: str
    buckets: frozenset[int]
    is_live: bool


def rivals(store: TaskStore, ours: str, owned: frozenset[int]) -> list[Rival]:
    """By name."""
    live = {node.node for node in store.nodes() if node.is_live}
    shared: dict[str, set[int]] = {}
    for claim in store.declarations():
        if claim.node != ours and claim.bucket in owned:
            shared.setdefault(claim.node, set()).add(claim.bucket)
    return [Rival(node, frozenset(buckets), node in live) for node, buckets in sorted(shared.items())]
