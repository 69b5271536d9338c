"""Lines of waiting tasks and the gates before them: a tree, in which nobody waits behind somebody who may not start."""

from collections.abc import Hashable

from chong.supervisor.front import Front, Rank


class Gate:
    """Slots of one kind; a run takes one of each of its gates. Lines that find it shut are parked at it."""

    __slots__ = ("__weakref__", "is_held", "limit", "parked", "taken")

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.is_held = False
        self.taken = 0
        self.parked: dict[Line, None] = {}

    @property
    def is_open(self) -> bool:
        return not self.is_held and (self.limit is None or self.taken < self.limit)

    def free(self) -> None:
        self.taken -= 1
        self.stir()

    def stir(self) -> None:
        """Let the parked lines come back, if they may now."""
        if self.parked and self.is_open:
            parked, self.parked = self.parked, {}
            for line in parked:
                line.announce()


class Line:
    """Behind its gate wait other lines, by the rank of who is first in each, or tasks.

    turn: a number that stands for this line above it, instead of the rank of its first; None for none.
    """

    __slots__ = ("above", "front", "gate", "key", "lines", "turn")

    def __init__(self, gate: Gate, key: Hashable = None, above: "Line | None" = None, turn: int | None = None) -> None:
        self.gate = gate
        self.key = key
        self.above = above
        self.turn = turn
        self.lines: dict[Hashable, Line] = {}
        self.front: Front[Hashable] = Front()

    def announce(self) -> None:
        """Somebody has come to the front here: the line above has to know, unless this one is parked."""
        first = self.front.first()
        if self.above is None or first is None or self in self.gate.parked:
            return
        rank = self._shown(first[0])
        if self.above.front.rank_of(self.key) != rank:
            self.above.front.put(self.key, rank)
            self.above.announce()

    def settle(self) -> Rank | None:
        """Bring to the front whoever may start first; its rank, None when nobody may.

        What stands too far in front moves back, and a line at a shut gate is parked: both are looked at once.
        """
        while (first := self.front.first()) is not None:
            rank, key = first
            line = self.lines.get(key)
            if line is None:
                return self._shown(rank)  # a task
            if not line.gate.is_open:
                self.front.drop(key)
                line.gate.parked[line] = None
            elif (now := line.settle()) is None:
                self.front.drop(key)  # all in it are parked, the first that comes back announces it again
            elif now != rank:
                self.front.put(key, now)
            else:
                return self._shown(rank)
        return None

    def first_task(self) -> str | None:
        """Who is in front of a settled line."""
        first = self.front.first()
        if first is None:
            return None
        line = self.lines.get(first[1])
        return str(first[1]) if line is None else line.first_task()

    def leave(self) -> None:
        """Be gone when nobody is left in here, and so on upwards."""
        if self.above is not None and not self.lines and not self.front:
            self.gate.parked.pop(self, None)
            self.above.front.drop(self.key)
            del self.above.lines[self.key]
            self.above.leave()

    def _shown(self, rank: Rank) -> Rank:
        return rank if self.turn is None else (self.turn,)
