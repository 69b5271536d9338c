"""Who asked for new task code, and what becomes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chong.store.errors import ChongError

RELOAD_SECONDS = 300.0
"""Longer than two imports may take: that of a generation on its way, and that of ours after it."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """A new generation is live: how many tasks it has, why modules could not be loaded, and definitions not taken.

    errors: by module. refused: by the task's name.
    """

    generation: int
    tasks: int
    errors: Mapping[str, str]
    refused: Mapping[str, str]


ReloadSettled = Callable[[Reloaded | ChongError], None]
"""Told what became of a reload."""


class Reloads:
    """Those whose generation is coming, and those that wait for the one after it, who share that one."""

    def __init__(self) -> None:
        self.is_wanted = False
        """Whether a reload was asked for that has not begun."""
        self._waiting: list[ReloadSettled] = []
        self._begun: list[ReloadSettled] = []

    def __len__(self) -> int:
        """How many wait for a reload to begin."""
        return len(self._waiting)

    def ask(self, settled: ReloadSettled) -> None:
        self.is_wanted = True
        self._waiting.append(settled)

    def begin(self) -> None:
        """Their generation is coming."""
        self.is_wanted = False
        self._begun, self._waiting = self._waiting, []

    def put_off(self, why: ChongError) -> bool:
        """Tell those that wait; the reload stays wanted. Whether there was anybody to tell."""
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            settled(why)
        return bool(waiting)

    def settle(self, outcome: Reloaded | ChongError) -> None:
        """Their generation is live, or failed to become so."""
        begun, self._begun = self._begun, []
        for settled in begun:
            settled(outcome)

    def refuse_all(self, why: ChongError) -> None:
        self.settle(why)
        self.put_off(why)
