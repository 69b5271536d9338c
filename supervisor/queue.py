"""Which waiting task starts next: buckets take turns, within a bucket priority decides, then age."""

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs may exist at one time on the node, and per bucket; None means no limit."""

    node: int
    per_bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task counts: its bucket (None for keyless tasks), its name, and the limit of its definition."""

    bucket: int | None
    name: str
    max_parallel: int | None = None


class TurnQueue:
    """Waiting tasks and the slots taken by runs.

    Each bucket holds one heap per task name, so that a definition at its limit does not block others behind
    it. Choosing looks at a bucket's names, never at its tasks: the cost does not grow with the backlog.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._heaps: dict[int | None, dict[str, list[tuple[int, int, str]]]] = {}
        self._places: dict[str, tuple[Place, int]] = {}
        self._taken: dict[str, Place] = {}
        self._per_bucket: Counter[int | None] = Counter()
        self._per_name: Counter[str] = Counter()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def running(self) -> int:
        return len(self._taken)

    def put(self, task_id: str, place: Place, priority: int = 0) -> None:
        """Let a task wait; higher priorities come first. One that waits already keeps its turn, with its new limit."""
        if task_id in self._places:
            self._places[task_id] = (place, self._places[task_id][1])
            return
        order = next(self._order)
        self._places[task_id] = (place, order)
        names = self._heaps.setdefault(place.bucket, {})
        heapq.heappush(names.setdefault(place.name, []), (-priority, order, task_id))

    def remove(self, task_id: str) -> None:
        """Forget a waiting task; its entry in the heap is dropped when it comes up."""
        self._places.pop(task_id, None)

    def take(self) -> str | None:
        """The next task that may start, which then holds a slot until `free`; None when none may."""
        if len(self._taken) >= self._limits.node:
            return None
        for bucket in list(self._heaps):
            task_id = self._take_from(bucket)
            if task_id is not None:
                return task_id
        return None

    def occupy(self, task_id: str, place: Place) -> None:
        """Count a run that was not taken from here (one that a former term had started)."""
        self.remove(task_id)
        self._taken[task_id] = place
        self._per_bucket[place.bucket] += 1
        self._per_name[place.name] += 1

    def free(self, task_id: str) -> None:
        """Give back the slot of a run, if it holds one."""
        place = self._taken.pop(task_id, None)
        if place is not None:
            self._per_bucket[place.bucket] -= 1
            self._per_name[place.name] -= 1

    def _take_from(self, bucket: int | None) -> str | None:
        limit = self._limits.per_bucket
        if limit is not None and self._per_bucket[bucket] >= limit:
            return None
        names = self._heaps[bucket]
        candidates = [heap[0] for name in list(names) if (heap := self._pruned(names, name)) and self._may_start(heap)]
        if not names:
            del self._heaps[bucket]
        if not candidates:
            return None
        task_id = min(candidates)[2]
        place = self._places[task_id][0]
        heapq.heappop(names[place.name])
        self._to_the_end(bucket)
        self.occupy(task_id, place)
        return task_id

    def _may_start(self, heap: list[tuple[int, int, str]]) -> bool:
        place = self._places[heap[0][2]][0]
        return place.max_parallel is None or self._per_name[place.name] < place.max_parallel

    def _pruned(self, names: dict[str, list[tuple[int, int, str]]], name: str) -> list[tuple[int, int, str]]:
        heap = names[name]
        while heap and self._places.get(heap[0][2], (None, None))[1] != heap[0][1]:
            heapq.heappop(heap)
        if not heap:
            del names[name]
        return heap

    def _to_the_end(self, bucket: int | None) -> None:
        self._heaps[bucket] = self._heaps.pop(bucket)
