"""A group that a node does not know."""

from chong.store.errors import Refused


class UnknownGroup(Refused):
    """No group of the node has this id, or such a one."""

    def __init__(self, part: str, node: str) -> None:
        super().__init__(f"no group of node {node} has an id that begins or ends with {part[:40]!r}")
