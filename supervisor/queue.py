"""Which waiting task starts next: buckets take turns, within a bucket priority decides, then age."""

import itertools
from dataclasses import dataclass
from weakref import WeakValueDictionary

from chong.supervisor.line import Gate, Line

Slot = tuple[str | int | None, ...]
"""What a gate counts the runs of: a kind, and its names."""

NODE: Slot = ("node",)
"""Everything that runs here."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs may exist at one time on the node, and per bucket; None means no limit."""

    node: int
    per_bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task counts: its bucket (None for keyless tasks), name and key, and the limits of its definition.

    The limit per key does not bind tasks without one.
    """

    bucket: int | None
    name: str
    max_parallel: int | None = None
    key: str | None = None
    max_parallel_per_key: int | None = None


class TurnQueue:
    """Waiting tasks and the slots taken by runs.

    A tree: the node's buckets, in each its names, in each of these its keys, and there the tasks. Choosing looks at
    who is in front, and once at each line whose gate has shut or opened since: the cost does not grow with the
    backlog, only, where a definition is at its limit, with the number of buckets in which it waits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._root = Line(Gate(limits.node))
        # A gate lives as long as a line, a run or a hold has it.
        self._gates: WeakValueDictionary[Slot, Gate] = WeakValueDictionary()
        self._held: dict[Slot, Gate] = {}
        self._waiting: dict[str, Line] = {}
        self._taken: dict[str, tuple[Gate, ...]] = {}
        self._order = itertools.count()
        self._turns = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._taken)

    def put(self, task_id: str, place: Place, priority: int = 0) -> None:
        """Let a task wait; higher priorities come first.

        One that waits already stays where it is, and the limits of its place are those that count from now on.
        """
        line = self._line_of(place)
        if task_id not in self._waiting:
            self._waiting[task_id] = line
            line.front.put(task_id, (-priority, next(self._order)))
            line.announce()

    def remove(self, task_id: str) -> None:
        """Forget a waiting task."""
        line = self._waiting.pop(task_id, None)
        if line is not None:
            line.front.drop(task_id)
            line.leave()

    def take(self) -> str | None:
        """The next task that may start, which then holds a slot until `free`; None when none may."""
        if not self._root.gate.is_open or self._root.settle() is None:
            return None
        task_id = self._root.first_task()
        if task_id is None:
            raise AssertionError("a line that settled has somebody in front")
        gates = []
        line: Line | None = self._waiting[task_id]
        while line is not None:
            gates.append(line.gate)
            if line.turn is not None:
                line.turn = next(self._turns)
            line = line.above
        self._occupy(task_id, gates)
        return task_id

    def occupy(self, task_id: str, place: Place) -> None:
        """Count a run that was not taken from here (one that a former term had started)."""
        self._occupy(task_id, [self._root.gate, *(self._gate(slot) for slot, _ in self._path(place))])

    def free(self, task_id: str) -> None:
        """Give back the slot of a run, if it holds one."""
        for gate in self._taken.pop(task_id, ()):
            gate.free()

    def hold(self, slot: Slot) -> None:
        """Let nothing start that would take such a slot: of a bucket, a name, or `NODE`; what runs is left alone."""
        gate = self._root.gate if slot == NODE else self._gate(slot)
        self._held[slot] = gate
        gate.is_held = True

    def unhold(self, slot: Slot) -> None:
        gate = self._held.pop(slot, None)
        if gate is not None:
            gate.is_held = False
            gate.stir()

    def _occupy(self, task_id: str, gates: list[Gate]) -> None:
        self._taken[task_id] = tuple(gates)
        for gate in gates:
            gate.taken += 1
        self.remove(task_id)

    def _line_of(self, place: Place) -> Line:
        line = self._root
        for slot, limit in self._path(place):
            below = line.lines.get(slot[-1])
            if below is None:
                turn = next(self._turns) if line is self._root else None
                below = line.lines[slot[-1]] = Line(self._gate(slot), slot[-1], line, turn)
            if below.gate.limit != limit:
                below.gate.limit = limit
                below.gate.stir()
            line = below
        return line

    def _gate(self, slot: Slot) -> Gate:
        gate = self._gates.get(slot)
        if gate is None:
            gate = self._gates[slot] = Gate()
        return gate

    def _path(self, place: Place) -> list[tuple[Slot, int | None]]:
        """What a run of this place takes a slot of, from the outside in, with its limit."""
        return [
            (("bucket", place.bucket), self._limits.per_bucket),
            (("name", place.name), place.max_parallel),
            (("key", place.name, place.key), None if place.key is None else place.max_parallel_per_key),
        ]
