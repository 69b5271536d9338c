"""Which nodes share a machine, by what each has said of it.

A boot id is a kernel's, and of one kernel are also containers that have machine ids of their own. A machine id stays
while one kernel follows the other: who was last seen before a boot is no stranger to one that began after it.
It is no proof beyond that: images and cloned disks take it to several machines. Those are told apart by what no boot
explains, a sign of each node after the start of the other.
"""

from collections.abc import Iterable

from chong.store.model import NodeRecord


def one_of_each_machine(nodes: Iterable[NodeRecord]) -> list[NodeRecord]:
    """The first node of each machine."""
    found: list[NodeRecord] = []
    for node in nodes:
        if not any(share_machine(node, other) for other in found):
            found.append(node)
    return found


def share_machine(one: NodeRecord, other: NodeRecord) -> bool:
    """Whether both may be of one machine, for all that is known."""
    if one.boot_id == other.boot_id:
        return True
    has_one_id = bool(one.machine_id) and one.machine_id == other.machine_id
    return has_one_id and (_may_precede(one, other) or _may_precede(other, one))


def _may_precede(one: NodeRecord, other: NodeRecord) -> bool:
    """Whether a boot may lie between the last sign of one and the start of the other; also where a time is unknown."""
    return one.seen_at is None or other.started_at is None or one.seen_at <= other.started_at
