"""Every hold that the store shows: those in it, and the nodes' own, which they publish with their catalogue. Pure."""

from collections.abc import Collection, Iterable
from typing import Protocol

from chong.store.model import CatalogueEntry, HoldScope, SharedHold
from chong.store.states import WAITING
from chong.store.survey import Survey
from chong.supervisor.holds import EVERYTHING

Target = tuple[HoldScope, str]
"""What a hold in the store is of."""


class Work(Protocol):
    """A task, or many that have these in common."""

    @property
    def node(self) -> str: ...

    @property
    def bucket(self) -> int | None: ...

    @property
    def name(self) -> str: ...


class ShownHolds:
    """Those in the store do not count for the targets `without`."""

    def __init__(
        self, catalogue: Iterable[CatalogueEntry], shared: Iterable[SharedHold], *, without: Collection[Target] = ()
    ) -> None:
        self._own = {(entry.node, entry.name): entry.hold for entry in catalogue if entry.hold}
        every = {(hold.scope, hold.target): hold for hold in shared}
        self._shared = {target: hold.text for target, hold in every.items() if target not in without}

    def on(self, work: Work) -> str | None:
        """Who keeps what waits there from starting, and why: first by the node's own word, then by the store."""
        own = (self._own.get((work.node, name)) for name in (work.name, EVERYTHING))
        shared = (self._shared.get(target) for target in _targets_of(work))
        return next((text for text in (*own, *shared) if text), None)


def freed_by(survey: Survey, targets: Collection[Target]) -> dict[Target, int]:
    """How many waiting tasks each of these targets' holds keeps from starting that nothing else would keep."""
    others = ShownHolds(survey.catalogue, survey.holds, without=targets)
    freed = dict.fromkeys(targets, 0)
    for work in survey.work:
        if work.status in WAITING and others.on(work) is None:
            for target in freed.keys() & _targets_of(work):
                freed[target] += work.tasks
    return freed


def _targets_of(work: Work) -> tuple[Target, ...]:
    """The widest first."""
    return (HoldScope.NODE, work.node), (HoldScope.NAME, work.name), (HoldScope.BUCKET, str(work.bucket))
