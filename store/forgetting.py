"""Which node may be forgotten: one rule for the stores, and for who only counts what would be lost."""

from chong.store.errors import Refused


def check_gone(node: str, *, is_live: bool) -> None:
    """Refused while the node is live."""
    if is_live:
        raise Refused(f"node {node} is live: only one that is gone can be forgotten")
