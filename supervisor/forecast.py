"""What the schedules of a deployment come to next, from what its nodes have published. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chong.store.buckets import BucketPolicy
from chong.store.model import BucketDeclaration, CatalogueEntry, Spot
from chong.supervisor.misfire import missed
from chong.supervisor.plans import Plan
from chong.supervisor.schedule import jitter_of
from chong.worker.options import Options, options_from_json
from chong.worker.schedules import BoundedMoments, moments_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One firing to come, or why there is none.

    planned: the instant that is claimed, due: with its jitter. last: the newest that was claimed by anybody. missed:
    how many instants since then are to be made up for. error: why the node does not schedule it.
    """

    node: str
    name: str
    key: str | None
    bucket: int | None
    planned: datetime | None
    due: datetime | None
    last: datetime | None
    missed: int
    misfire: str
    overlap: str
    schedule: str
    error: str | None


class Scheduled:
    """One definition of one node; `keys` are those that this node owns, as far as the catalogue shows them."""

    def __init__(self, entry: CatalogueEntry, owned: Collection[int] | None, policy: BucketPolicy) -> None:
        self.entry = entry
        self._policy = policy
        self.options, self.moments, fault = _read(entry.options)
        self.error = entry.error or fault
        listed: tuple[str | None, ...] = self.options.keys or (() if self.options.calls_keys else (None,))
        self.keys = [key for key in listed if key is None or owned is None or policy.bucket_of(key) in owned]

    @property
    def is_any(self) -> bool:
        return bool(self.options.timings)

    @property
    def plan(self) -> Plan:
        options = self.options
        keys = tuple(self.keys)
        return Plan(self.entry.name, options.timings, keys, options.misfire, options.overlap, options.misfire_limit)

    def forecasts(self, key: str | None, last: datetime | None, now: datetime, count: int) -> list[Forecast]:
        """The next firings of a key, soonest first; one without an instant where none comes."""
        instants = [] if self.error else sorted(self._next(key, now, count))[:count]
        due: list[tuple[datetime | None, datetime | None]] = [(planned, at) for at, planned in instants]
        return [self._forecast(key, last, now, planned, at) for planned, at in due or [(None, None)]]

    def _next(self, key: str | None, now: datetime, count: int) -> set[tuple[datetime, datetime]]:
        found: dict[datetime, datetime] = {}
        for timing, moments in zip(self.options.timings, self.moments, strict=True):
            moment = moments.after(now)
            for _ in range(count):
                if moment is None:
                    break
                due = moment + jitter_of(self.entry.name, key, moment, timing.jitter)
                found[moment] = min(due, found.get(moment, due))
                moment = moments.after(moment)
        return {(due, planned) for planned, due in found.items()}

    def _forecast(
        self, key: str | None, last: datetime | None, now: datetime, planned: datetime | None, due: datetime | None
    ) -> Forecast:
        return Forecast(
            node=self.entry.node,
            name=self.entry.name,
            key=key,
            bucket=None if key is None else self._policy.bucket_of(key),
            planned=planned,
            due=due,
            last=last,
            missed=0 if self.error else len(missed(self.plan, self.moments, last, now)),
            misfire=self.options.misfire,
            overlap=self.options.overlap,
            schedule="; ".join(timing.text for timing in self.options.timings),
            error=self.error,
        )


def scheduled(
    catalogue: Iterable[CatalogueEntry], declarations: Iterable[BucketDeclaration], policy: BucketPolicy
) -> Iterator[Scheduled]:
    """The definitions that have a schedule; a node that has declared no bucket owns all."""
    owned: defaultdict[str, set[int]] = defaultdict(set)
    for claim in declarations:
        owned[claim.node].add(claim.bucket)
    for entry in catalogue:
        found = Scheduled(entry, owned.get(entry.node), policy)
        if found.is_any:
            yield found


def spots_of(found: Iterable[Scheduled]) -> list[Spot]:
    return list(dict.fromkeys((each.entry.name, key) for each in found for key in each.keys))


def _read(content: Mapping[str, Any]) -> tuple[Options, list[BoundedMoments], str | None]:
    """What another version has published may not be understood here, or a zone not be known."""
    options = Options()
    try:
        options = options_from_json({name: value for name, value in content.items() if name != "env"})
        return options, [moments_of(timing) for timing in options.timings], None
    except (ValueError, TypeError, AttributeError) as error:
        return options, [], str(error)
