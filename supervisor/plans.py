"""What a node has to fire: the schedules of its definitions, with the keys that it owns."""

from collections.abc import Iterable
from dataclasses import dataclass

from chong.store.errors import Refused
from chong.supervisor.admission import Admission
from chong.supervisor.catalogue import Catalogue, Task
from chong.worker.options import MISFIRE_LIMIT
from chong.worker.schedules import Timing, moments_of


@dataclass(frozen=True, slots=True)
class Plan:
    """keys: those that this node owns; None among them is work without a key. limit: how many instants may wait."""

    name: str
    timings: tuple[Timing, ...]
    keys: tuple[str | None, ...]
    misfire: str = "once"
    overlap: str = "skip"
    limit: int = MISFIRE_LIMIT

    @property
    def is_in_line(self) -> bool:
        """Whether an instant waits behind those before it, in place of taking their place."""
        return self.overlap == "queue" or self.misfire == "all"

    @property
    def most(self) -> int:
        """How many of the instants that came since the last look count."""
        return self.limit if self.misfire == "all" else 1


class NoKeys(Refused):
    """Work without a key, which a node that owns some of the buckets cannot have."""


def plans_of(catalogue: Catalogue, admission: Admission) -> tuple[list[Plan], dict[str, Refused]]:
    """What this node has to fire, and by name why a definition cannot be scheduled here."""
    plans: list[Plan] = []
    errors: dict[str, Refused] = {}
    for task in catalogue.tasks.values():
        timings = task.options.timings
        if not timings:
            continue
        try:
            keys = _keys_of(task, admission)
            _check(timings)
        except Refused as refusal:
            errors[task.name] = refusal
        else:
            options = task.options
            plans.append(Plan(task.name, timings, keys, options.misfire, options.overlap, options.misfire_limit))
    return plans, errors


def _keys_of(task: Task, admission: Admission) -> tuple[str | None, ...]:
    what = "every" if task.options.every is not None else "schedule"
    if task.required:
        raise Refused(f"{what}: expected no parameter without a default, got {', '.join(sorted(task.required))}"[:500])
    if task.options.calls_keys:
        return _owned(task, admission)
    if not task.options.keys:
        if not admission.owns_all_buckets:
            raise NoKeys(f"{what}: expected keys, because this node owns some of the buckets only; got none")
        return (None,)
    return _owned(task, admission)


def _owned(task: Task, admission: Admission) -> tuple[str, ...]:
    if admission.owns_all_buckets:
        return task.options.keys
    return tuple(key for key in task.options.keys if admission.owns_bucket(admission.policy.bucket_of(key)))


def _check(timings: Iterable[Timing]) -> None:
    """Refused when one cannot be computed here: this machine may lack the zones that another one has."""
    for timing in timings:
        try:
            moments_of(timing)
        except ValueError as error:
            raise Refused(f"schedule: {error}") from None
