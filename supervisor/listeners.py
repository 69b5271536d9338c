"""Who hears what the node's processes do; all are called in the loop's thread."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from chong.supervisor import events as e
from chong.supervisor import reports
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.generation import Generation


class ForkserverListener(Protocol):
    """Who is told what becomes of forkservers."""

    def catalogue_ready(self, generation: int, catalogue: Catalogue, *, has_new_code: bool) -> None:
        """A new generation can fork; its catalogue is the one that counts from now on.

        has_new_code: it has what a reload was asked for, and does not only take the place of one that died.
        """

    def forkserver_not_understood(self, generation: int, error: Exception) -> None:
        """It could not be started, or said something that makes no sense; it is ended."""

    def forkserver_stuck(self, generation: int, seconds: float) -> None:
        """It did nothing that it was asked for, or said nothing, for so long; it is ended."""

    def forkserver_gone(self, generation: int, *, expected: bool, restart_in: float | None) -> None:
        """A forkserver ended; `expected` when it was to, and no run of it is left."""

    def reload_failed(self, generation: int, why: str) -> None:
        """It did not come to life; the one before goes on."""

    def reload_waits(self, alive: list[int]) -> None:
        """As many generations as there may be have runs."""


class RunKeeper(Protocol):
    """Who has the runs that forkservers hold."""

    def reported(self, generation: Generation, told: reports.Told) -> None:
        """Something about a run; ProtocolError when it makes no sense."""

    def lose_home(self, generation: Generation) -> bool:
        """The forkserver is dead; whether runs of it live on, which then need its leash."""


class Listener(ForkserverListener, Protocol):
    """Who is told what the processes do."""

    def happened(self, run: str, what: e.Happening, event_id: str, at: datetime | None) -> int:
        """Something happened to a run; returns the version of its task still to be stored for it, 0 for none."""

    def kept_state(self, run: str, text: str) -> None:
        """A checkpoint carried a state, as JSON text."""

    def when_kept(self, run: str, then: Callable[[], object]) -> None:
        """Call `then`, at once or later, when all states of the run that were handed on are kept."""
