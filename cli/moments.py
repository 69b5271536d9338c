"""The moments of a request: asked, by the asker's clock; delivered, acknowledged and effective, by the node's.

Those of a stop stand with its task. Those of a pause, a freeze and a resume follow from the command and the trail: a
change that a command has caused bears its event, and the moment at which the node decided it, whenever it was stored.
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
UNCHANGED = "nothing had to change"
_ENDED = "never, it ended first"
_ON_THE_WAY = frozenset({Status.STARTING, Status.RUNNING, Status.PAUSING})
"""Where a pause may still come about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """`came`: those that there were, by name; `missing`: why the others are not there.

    A name in neither is none of such a request: nobody answers a freeze. `was_so`: the task was already as was asked.
    """

    asked_at: datetime
    by: str
    reason: str | None
    came: Mapping[str, datetime] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    was_so: bool = False

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
        if self.was_so and name == "effective":
            return UNCHANGED
        return f"{stamp(self.came[name])} (after {self._after(name)})" if name in self.came else self.missing.get(name)

    def _after(self, name: str) -> str:
        return span(self.came[name] - self.asked_at)


def moments_of_stop(stop: StopMoments, *, is_over: bool) -> Moments:
    """`is_over`: the task has ended, so what has not come never will."""
    stored = {name: getattr(stop, f"{name}_at") for name in NAMES}
    came = {name: moment for name, moment in stored.items() if moment is not None}
    never = ("never, no worker was there to hear it", "never, it met no checkpoint", "unknown")
    missing = dict(zip(NAMES, never, strict=True)) if is_over else dict.fromkeys(NAMES, NOT_YET)
    if is_over and stop.delivered_at is None:
        missing["acknowledged"] = missing["delivered"]
    return Moments(asked_at=stop.asked_at, by=stop.by, reason=stop.reason, came=came, missing=missing)


def moments_of(command: Command, trail: Sequence[Transition]) -> Moments:
    """Of a pause, a freeze or a resume; `trail`: all changes of its task."""
    came, missing = _course(command, trail)
    # The asker's clock may be ahead of the node's: nobody hears of what is not asked for yet.
    asked_at = min((command.issued_at, *came.values()))
    was_so = "effective" in came and "acknowledged" not in came and not _has_changed(command, trail)
    return Moments(
        asked_at=asked_at, by=command.issued_by, reason=command.reason, came=came, missing=missing, was_so=was_so
    )


def latest(commands: Sequence[Command], trail: Sequence[Transition]) -> list[Command]:
    """The last pause or freeze, and the last resume unless that pause came after it; `commands`: oldest first.

    Of what has changed something, or still may: who asked once more for what was there already brought nothing about.
    """
    telling = [each for each in commands if each.finished_at is None or _has_changed(each, trail)]
    commands = telling or commands
    paused = max(_places(commands, Action.PAUSE, Action.FREEZE), default=-1)
    resumed = max(_places(commands, Action.RESUME), default=-1)
    return [commands[place] for place in (paused, resumed if resumed > paused else -1) if place >= 0]


def _places(commands: Sequence[Command], *actions: Action) -> list[int]:
    return [place for place, command in enumerate(commands) if command.action in actions]


def _has_changed(command: Command, trail: Sequence[Transition]) -> bool:
    return _own_step(command, trail) is not None


def _own_step(command: Command, trail: Sequence[Transition]) -> Transition | None:
    return next((step for step in trail if is_of_command(step.event_id, command.id)), None)


_Course = tuple[dict[str, datetime], dict[str, str]]


def _course(command: Command, trail: Sequence[Transition]) -> _Course:
    names = NAMES if command.action is Action.PAUSE else ("delivered", "effective")
    if command.finished_at is None:
        return {}, dict.fromkeys(names, NOT_YET)
    if command.outcome != "done":
        return {}, dict.fromkeys(names, f"never, {command.outcome}")
    own = _own_step(command, trail)
    # Where it has changed nothing the node has told no moment; the store knows when it heard that it was done.
    delivered = command.finished_at if own is None else own.at
    if command.action is Action.PAUSE:
        return _course_of_pause(command, delivered, trail)
    return dict.fromkeys(names, delivered), {}


def _course_of_pause(command: Command, delivered: datetime, trail: Sequence[Transition]) -> _Course:
    """What it met on its way: the worker's word, or what came first, or nothing yet."""
    came = {"delivered": delivered}
    place = _place(command, trail)
    if place >= 0 and trail[place].target is Status.PAUSED:
        return came | {"effective": delivered}, {}
    for step in trail[place + 1 :]:
        if step.target is Status.PAUSED:
            came["delivered"] = min(delivered, step.at)
            if is_of_command(step.event_id):
                return came | {"effective": step.at}, {"acknowledged": "never, a freeze came first"}
            return came | {"acknowledged": step.at, "effective": step.at}, {}
        if (why := _why_never(step)) is not None:
            return came, dict.fromkeys(("acknowledged", "effective"), why)
    return came, dict.fromkeys(("acknowledged", "effective"), NOT_YET)


def _place(command: Command, trail: Sequence[Transition]) -> int:
    """Of the change that it has caused; where it found nothing to change, of the last one before it was asked."""
    asked_at = command.stored_at or command.issued_at  # both by the store's clock, as far as it knows
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
