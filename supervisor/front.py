"""Who stands in front: names by rank, which may change or leave at any time."""

import heapq
import itertools
from typing import Generic, TypeVar

Rank = tuple[int, ...]
"""The least is in front."""

SLACK = 16

K = TypeVar("K")


class Front(Generic[K]):
    """A heap of names. An entry whose name has moved or left is dropped when it comes up, or when most are such."""

    __slots__ = ("_entries", "_heap", "_tickets")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, K]] = []
        self._entries: dict[K, tuple[Rank, int, K]] = {}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, name: K, rank: Rank) -> None:
        """Let a name stand at this rank, wherever it stood before."""
        entry = self._entries[name] = (rank, next(self._tickets), name)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + SLACK:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def drop(self, name: K) -> None:
        self._entries.pop(name, None)

    def rank_of(self, name: K) -> Rank | None:
        entry = self._entries.get(name)
        return None if entry is None else entry[0]

    def first(self) -> tuple[Rank, K] | None:
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[0], entry[2]
            heapq.heappop(self._heap)
        return None
