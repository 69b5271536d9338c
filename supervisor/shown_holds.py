"""Every hold that the store shows: those in it, and the nodes' own, which they publish with their catalogue. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from chong.store.model import CatalogueEntry, HoldScope, SharedHold
from chong.store.states import WAITING
from chong.store.survey import Survey
from chong.supervisor.advice import to_release, to_release_here
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


@dataclass(frozen=True, slots=True)
class ShownHold:
    """Who keeps it and why, for people; and what to do to release it."""

    text: str
    release: str


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
        own = (self._own[work.node, name] for name in self._own_on(work))
        return together((*own, *(self._shared[target] for target in self._shared_on(work))))

    def all_on(self, work: Work) -> list[ShownHold]:
        """As `on`, each with what to do about it: what waits there starts when all are released."""
        own = [ShownHold(self._own[work.node, name], to_release_here(name, work.node)) for name in self._own_on(work)]
        return own + [ShownHold(self._shared[target], to_release(*target)) for target in self._shared_on(work)]

    def _own_on(self, work: Work) -> list[str]:
        """What the node holds itself: the name, everything."""
        name, everything = (self._own.get((work.node, of)) for of in (work.name, EVERYTHING))
        # A hold of everything is shown with each name that has none of its own.
        return [
            of for of, text in ((work.name, name if name != everything else None), (EVERYTHING, everything)) if text
        ]

    def _shared_on(self, work: Work) -> list[Target]:
        return [target for target in _targets_of(work) if target in self._shared]


def together(texts: Iterable[str]) -> str | None:
    """Several holds of one thing in one text; it is shut until the last one is released."""
    return "; also ".join(texts) or None


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
