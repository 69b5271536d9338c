"""What a term finds with its first contact: every open task of the node, sorted."""

from dataclasses import dataclass, field

from chong.store.model import HoldList, Save, TaskSnapshot
from chong.supervisor.rivals import Rival
from chong.supervisor.submission import Submission


@dataclass(slots=True)
class Inventory:
    """Every open task of the node, sorted by what is known of it."""

    replayed: list[str] = field(default_factory=list)
    """Of the unsent writes those that are settled, whichever way."""
    refused: list[tuple[Save, Exception]] = field(default_factory=list)
    """Of these the ones that came too late: others have spoken for the task."""

    num_buckets: int = 0
    declared: frozenset[int] | None = None
    """The node's buckets as the store shows them, None without partition."""
    holds: HoldList = field(default_factory=lambda: HoldList(0, ()))
    """What must not start."""
    rivals: list[Rival] = field(default_factory=list)
    """Other nodes that have declared buckets of ours, and which."""
    running: list[tuple[TaskSnapshot, float]] = field(default_factory=list)
    """Adopted, with its worker attached; and the seconds it has run, pauses not counted."""
    unforked: list[tuple[TaskSnapshot, int]] = field(default_factory=list)
    """Adopted; `starting`, but the forkserver that it was claimed for, this generation's, never heard of it."""
    dead: list[TaskSnapshot] = field(default_factory=list)
    """Adopted; its worker is proven dead."""
    doubtful: list[TaskSnapshot] = field(default_factory=list)
    """Another term's, which may live: to be judged by its lease."""
    waiting: list[TaskSnapshot] = field(default_factory=list)
    """Queued or retrying, with its submission on this node."""
    spoolless: list[TaskSnapshot] = field(default_factory=list)
    """Queued or retrying, its submission is gone."""
    unsaved: list[Submission] = field(default_factory=list)
    """Accepted, and not in the store yet."""
    forgotten: list[str] = field(default_factory=list)
    """Accepted, and begun here or once in the store, which does not know it now: others ended and pruned it while the
    node was away, or the store was replaced by an older or an empty one, or the spool by an older one."""
    ended: list[TaskSnapshot] = field(default_factory=list)
    """Accepted, and final in the store."""
    survivors: list[int] = field(default_factory=list)
    """Processes of dead runs that had lived on; they are ended."""
    stored_runs: list[str] = field(default_factory=list)
    """Attached, and its end is stored by our own event: only the release is missing."""
    foreign_runs: list[tuple[str, TaskSnapshot | None]] = field(default_factory=list)
    """Attached, but somebody else spoke for it meanwhile."""
