"""What a group lets run, and what it calls off: from the ends of its members alone, without clock, store or process.

Told of each end once, in any order, it answers with what follows. So a later term that tells it again what is known has
it where the former one was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from chong.store.states import Status
from chong.worker.plan import Call, Group, Pipeline, Plan


class Verdict(Enum):
    """What the end of a member means for the others."""

    GOOD = "good"
    BROKEN = "broken"
    """It failed, or nobody can know: what `fail_fast` looks for."""
    ENDED = "ended"
    """Somebody wanted its end."""


VERDICTS: Mapping[Status, Verdict] = {
    Status.SUCCEEDED: Verdict.GOOD,
    Status.FAILED: Verdict.BROKEN,
    Status.LOST: Verdict.BROKEN,
    Status.STOPPED: Verdict.ENDED,
    Status.CANCELLED: Verdict.ENDED,
}


@dataclass(eq=False, slots=True)
class Part:
    """A call, group or pipeline of the plan, as it stands.

    number: of a call, which member of the whole it is. takes: whether a call in it asks for a result. source: the part
    whose result it is handed. at: which of its parts is next. open: how many of them are under way. cut: from this one
    on its parts were called off.
    """

    plan: Plan
    above: "Part | None" = None
    place: int = 0
    number: int = 0
    parts: list["Part"] = field(default_factory=list)
    takes: bool = False
    source: "Part | None" = None
    at: int = 0
    open: int = 0
    over: int = 0
    cut: int = 0
    has_begun: bool = False
    is_called_off: bool = False
    is_over: bool = False
    is_good: bool = True
    """Whether all of it that is over has succeeded."""

    def calls(self) -> Iterator["Part"]:
        """In the order in which they are written."""
        stack = [self]
        while stack:
            part = stack.pop()
            if isinstance(part.plan, Call):
                yield part
            stack += reversed(part.parts)

    def take_next(self) -> list[tuple["Part", "Part | None"]]:
        """Those of its parts that may begin now, each with whose result it is handed."""
        found: list[tuple[Part, Part | None]] = []
        while self.at < len(self.parts) and self._has_room(len(found)):
            part, source = self.parts[self.at], self.source
            if isinstance(self.plan, Pipeline) and self.at:
                source = self.parts[self.at - 1]
            self.at += 1
            if not part.is_over and not part.is_called_off:
                found.append((part, source))
        return found

    def _has_room(self, more: int) -> bool:
        if isinstance(self.plan, Pipeline):
            before = self.parts[self.at - 1] if self.at else None
            return before is None or (before.is_over and before.is_good)
        most = self.plan.max_parallel if isinstance(self.plan, Group) else None
        return most is None or self.open + more < most


@dataclass(frozen=True, slots=True)
class Let:
    """These members may run now; each that asks for a result is handed that of `source`."""

    numbers: tuple[int, ...]
    source: Part | None


@dataclass(frozen=True, slots=True)
class CallOff:
    """These members are wanted no more, for what became of the member `culprit`."""

    numbers: tuple[int, ...]
    culprit: int


Consequence = Let | CallOff


class Machine:
    """One group. `calls` are its members by number."""

    def __init__(self, plan: Plan) -> None:
        self.root = _tree(plan)
        self.calls = list(self.root.calls())
        for number, part in enumerate(self.calls):
            part.number = number
        self._called_off: list[CallOff] = []
        self._let: dict[Part | None, list[int]] = {}

    @property
    def is_over(self) -> bool:
        return self.root.is_over

    def begin(self) -> list[Consequence]:
        self._begin([(self.root, None)])
        return self._consequences()

    def ended(self, number: int, verdict: Verdict) -> list[Consequence]:
        """A member is over; whoever says so twice is heard once."""
        call = self.calls[number]
        if call.is_over:
            return []
        if verdict is Verdict.BROKEN and not call.is_called_off:
            self._break(call)
        self._end(call, is_good=verdict is Verdict.GOOD)
        return self._consequences()

    def hands_on(self, number: int) -> bool:
        """Whether somebody may ask for this member's result."""
        part = self.calls[number]
        while (above := part.above) is not None:
            if isinstance(above.plan, Pipeline) and part.place + 1 < len(above.parts):
                return above.parts[part.place + 1].takes
            part = above
        return False

    def _break(self, call: Part) -> None:
        """The outermost group that does not bear it takes all of it along."""
        outermost, part = None, call.above
        while part is not None:
            if isinstance(part.plan, Group) and part.plan.fail_fast:
                outermost = part
            part = part.above
        if outermost is not None:
            self._call_off([outermost], call)

    def _call_off(self, parts: list[Part], culprit: Part) -> None:
        numbers, stack = [], parts[::-1]
        while stack:
            part = stack.pop()
            if part.is_over or part.is_called_off or part is culprit:
                continue
            part.is_called_off = True
            if isinstance(part.plan, Call):
                numbers.append(part.number)
            stack += reversed(part.parts)
        if numbers:
            self._called_off.append(CallOff(tuple(numbers), culprit.number))

    def _begin(self, parts: list[tuple[Part, Part | None]]) -> None:
        stack = parts[::-1]
        while stack:
            part, source = stack.pop()
            part.source, part.has_begun = source, True
            if part.above is not None:
                part.above.open += 1
            if isinstance(part.plan, Call):
                self._let.setdefault(part.source, []).append(part.number)
            stack += reversed(part.take_next())

    def _end(self, call: Part, *, is_good: bool) -> None:
        """It is over, and so may be what it is a part of."""
        call.is_good = is_good
        part = call
        while True:
            part.is_over = True
            above = part.above
            if above is None:
                return
            above.over += 1
            above.open -= part.has_begun
            if not part.is_good:
                above.is_good = False
                if isinstance(above.plan, Pipeline) and part.place < above.cut:
                    behind, above.cut = above.parts[part.place + 1 : above.cut], part.place
                    self._call_off(behind, call)
            if above.has_begun and not above.is_called_off:
                self._begin(above.take_next())
            if above.over < len(above.parts):
                return
            part = above

    def _consequences(self) -> list[Consequence]:
        let = [Let(tuple(numbers), source) for source, numbers in self._let.items()]
        found, self._called_off, self._let = self._called_off, [], {}
        return [*found, *let]


def result_of(part: Part, results: Mapping[int, Any]) -> Any:
    """What a part that is over has come to; LookupError when a result that belongs to it is not known."""
    if isinstance(part.plan, Call):
        return results[part.number]
    if isinstance(part.plan, Pipeline):
        return result_of(part.parts[-1], results)
    return [result_of(inner, results) for inner in part.parts]


def _tree(plan: Plan) -> Part:
    root = Part(plan)
    found = [root]
    for part in found:  # which grows meanwhile
        if isinstance(part.plan, Call):
            part.takes = part.plan.into is not None
        else:
            part.parts = [Part(member, part, place) for place, member in enumerate(part.plan.members)]
            part.cut = len(part.parts)
            found += part.parts
    for part in reversed(found):
        if part.above is not None:
            part.above.takes = part.above.takes or part.takes
    return root
