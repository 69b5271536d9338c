"""Two living nodes of one name would take each other's commands, and each would take the other's work for lost."""

from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError
from chong.store.model import NodeRecord


def refuse_namesake(store: TaskStore, node: str, node_id: str | None) -> None:
    """ConfigurationError when another state directory's node of our name is live: its row is not ours to write.

    node_id: None before our first start.
    """
    other = _row_of(store, node)
    if other is not None and other.node_id != node_id and other.is_live:
        raise _namesake(other)


def is_registered(store: TaskStore, node: str, term: str) -> bool:
    """Whether the node's row is there and this term's; ConfigurationError when another term has taken its place."""
    row = _row_of(store, node)
    if row is not None and row.term != term:
        raise _namesake(row)
    return row is not None


def _row_of(store: TaskStore, node: str) -> NodeRecord | None:
    return next((row for row in store.nodes() if row.node == node), None)


def _namesake(other: NodeRecord) -> ConfigurationError:
    return ConfigurationError(
        f"node {other.node!r}: expected a name of its own, another state directory uses it "
        f"on {other.host} (process {other.pid}); give this one another --node"
    )
