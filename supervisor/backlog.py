"""The instants of schedules that wait for their claim, by name and key."""

from collections import deque
from collections.abc import Iterable, Iterator

from chong.store.model import Spot
from chong.supervisor.schedule import Firing


class Backlog:
    """Pure. Of one name and key at most `limit` instants wait, oldest first; without a line only the newest does."""

    def __init__(self) -> None:
        self._lines: dict[Spot, deque[Firing]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __iter__(self) -> Iterator[Spot]:
        return iter(list(self._lines))

    def first(self, spot: Spot) -> Firing | None:
        line = self._lines.get(spot)
        return line[0] if line else None

    def add(self, firing: Firing, limit: int) -> Firing | None:
        """Put it behind the others; gives the one that had to go for it."""
        line = self._lines.setdefault(firing.spot, deque())
        if firing in line:
            return None
        line.append(firing)
        return line.popleft() if len(line) > limit else None

    def put_before(self, firings: Iterable[Firing], limit: int) -> list[Firing]:
        """Older ones, oldest first; gives those for which there was no place."""
        gone = []
        for firing in reversed(list(firings)):
            line = self._lines.setdefault(firing.spot, deque())
            if firing in line:
                continue
            if len(line) < limit:
                line.appendleft(firing)
            else:
                gone.append(firing)
        return gone[::-1]

    def drop_first(self, spot: Spot) -> None:
        line = self._lines[spot]
        line.popleft()
        if not line:
            del self._lines[spot]

    def drop(self, spot: Spot) -> None:
        self._lines.pop(spot, None)
