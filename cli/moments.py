"""The moments of a request, from the store's own record: asked, delivered, acknowledged, effective.

Those of a stop stand with its task. Those of a pause, a freeze and a resume follow from the command and the trail. A
node sends its word to the worker together with the save that ends the command, so then it is delivered. A change that
a command has caused bears its event: by that a pause finds its own way through the trail, whatever the clocks said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from chong.cli.times import span, stamp
from chong.store.model import Action, Command, StopMoments, Transition
from chong.store.states import Status
from chong.supervisor.events import is_of_command

NAMES = ("delivered", "acknowledged", "effective")
"""All but the first: when it was asked, is known of each."""

NOT_YET = "not yet"
_ENDED = "never, it ended first"
_ON_THE_WAY = frozenset({Status.STARTING, Status.RUNNING, Status.PAUSING})
"""Where a pause may still come about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """`came`: those that there were, by name; `missing`: why the others are not there.

    A name in neither is none of such a request: nobody answers a freeze.
    """

    asked_at: datetime
    by: str
    reason: str | None
    came: Mapping[str, datetime] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def came_about(self) -> bool:
        return "effective" in self.came

    @property
    def is_void(self) -> bool:
        """Whether it never will come about."""
        return not self.came_about and self.missing.get("effective") != NOT_YET

    def facts(self) -> list[tuple[str, str | None]]:
        """For people, one to a line; each counts from the first one."""
        told = ((name, self._told(name)) for name in NAMES)
        return [("asked", stamp(self.asked_at)), ("by", self.by), ("reason", self.reason), *told]

    def words(self) -> Iterator[str]:
        """For people, those that there were, within a line that says who asked."""
        for name in NAMES:
            if name in self.came:
                yield f"{name} after {self._after(name)}"

    def as_fields(self) -> dict[str, datetime | None]:
        """For programs."""
        return {f"{name}_at": self.came.get(name) for name in NAMES}

    def _told(self, name: str) -> str | None:
        return f"{stamp(self.came[name])} (after {self._after(name)})" if name in self.came else self.missing.get(name)

    def _after(self, name: str) -> str:
        return span(self.came[name] - self.asked_at)


def moments_of_stop(stop: StopMoments, *, is_over: bool) -> Moments:
    """`is_over`: the task has ended, so what has not come never will."""
    stored = {name: getattr(stop, f"{name}_at") for name in NAMES}
    came = {name: moment for name, moment in stored.items() if moment is not None}
    never = ("never, no worker was there to hear it", "never, it met no checkpoint", "unknown")
    missing = dict(zip(NAMES, never, strict=True)) if is_over else dict.fromkeys(NAMES, NOT_YET)
    return Moments(asked_at=stop.asked_at, by=stop.by, reason=stop.reason, came=came, missing=missing)


def moments_of(command: Command, trail: Sequence[Transition]) -> Moments:
    """Of a pause, a freeze or a resume; `trail`: all changes of its task. Asked is when the store took it."""
    came, missing = _course(command, trail)
    asked_at = command.stored_at or command.issued_at
    return Moments(asked_at=asked_at, by=command.issued_by, reason=command.reason, came=came, missing=missing)


def latest(commands: Sequence[Command]) -> list[Command]:
    """The last pause or freeze, and the last resume unless that pause came after it; `commands`: oldest first."""
    paused = max(_places(commands, Action.PAUSE, Action.FREEZE), default=-1)
    resumed = max(_places(commands, Action.RESUME), default=-1)
    return [commands[place] for place in (paused, resumed if resumed > paused else -1) if place >= 0]


def _places(commands: Sequence[Command], *actions: Action) -> list[int]:
    return [place for place, command in enumerate(commands) if command.action in actions]


_Course = tuple[dict[str, datetime], dict[str, str]]


def _course(command: Command, trail: Sequence[Transition]) -> _Course:
    names = NAMES if command.action is Action.PAUSE else ("delivered", "effective")
    if command.finished_at is None:
        return {}, dict.fromkeys(names, NOT_YET)
    if command.outcome != "done":
        return {}, dict.fromkeys(names, f"never, {command.outcome}")
    if command.action is Action.PAUSE:
        return _course_of_pause(command, command.finished_at, trail)
    return dict.fromkeys(names, command.finished_at), {}


def _course_of_pause(command: Command, delivered: datetime, trail: Sequence[Transition]) -> _Course:
    """What it met on its way: the worker's word, or what came first, or nothing yet."""
    came = {"delivered": delivered}
    place = _place(command, trail)
    if place >= 0 and trail[place].target is Status.PAUSED:
        return came | {"effective": delivered}, {}
    for step in trail[place + 1 :]:
        if step.target is Status.PAUSED:
            # What one transaction writes has moments of its own in PostgreSQL, in no certain order.
            at = max(step.stored_at or step.at, delivered)
            if is_of_command(step.event_id):
                return came | {"effective": at}, {"acknowledged": "never, a freeze came first"}
            return came | {"acknowledged": at, "effective": at}, {}
        if (why := _why_never(step)) is not None:
            return came, dict.fromkeys(("acknowledged", "effective"), why)
    return came, dict.fromkeys(("acknowledged", "effective"), NOT_YET)


def _place(command: Command, trail: Sequence[Transition]) -> int:
    """Of the change that it has caused; where it found nothing to change, of the last one before it was asked."""
    asked_at = command.stored_at or command.issued_at
    own = (place for place, step in enumerate(trail) if is_of_command(step.event_id, command.id))
    before = (place for place, step in enumerate(trail) if (step.stored_at or step.at) <= asked_at)
    return max(own, default=max(before, default=-1))


def _why_never(step: Transition) -> str | None:
    """Why a pause that waits for a checkpoint cannot come about after this change, None where it can."""
    if step.target is Status.RUNNING and step.source is not Status.STARTING:
        return "never, a resume came first"
    if step.target is Status.STOPPING:
        return "never, a stop or a time-out came first"
    return None if step.target in _ON_THE_WAY else _ENDED
