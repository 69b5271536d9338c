"""Other living nodes that have declared buckets which are ours, too: a mistake in some configuration, not refused."""

from chong.store.contract import TaskStore


def rivals(store: TaskStore, ours: str, owned: frozenset[int]) -> dict[str, frozenset[int]]:
    """By the other node's name the buckets that both declare."""
    live = {node.node for node in store.nodes() if node.is_live and node.node != ours}
    shared: dict[str, frozenset[int]] = {}
    for claim in store.declarations():
        if claim.node in live and claim.bucket in owned:
            shared[claim.node] = shared.get(claim.node, frozenset()) | {claim.bucket}
    return shared
