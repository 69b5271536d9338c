"""What is wrong with a deployment, judged from one look at its store.

Pure: the same survey gives the same findings, whoever looks. Subjects are what stays the same while the trouble lasts,
details what may change. What is many times the same trouble is one finding: a dead node, not each of its tasks.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from chong.store.alert import Finding
from chong.store.buckets import format_buckets
from chong.store.few import few
from chong.store.model import HoldScope, NodeRecord
from chong.store.stamp import utc_text
from chong.store.states import Status
from chong.store.survey import OpenWork, Survey
from chong.supervisor.advice import ADVICE, Kind, to_close, to_release, to_release_here, to_replace
from chong.supervisor.coverage import Owners, dropped_of, owners_of
from chong.supervisor.holds import EVERYTHING
from chong.supervisor.oneline import counted
from chong.supervisor.same_machine import one_of_each_machine
from chong.supervisor.share import ConfiguredBuckets, Share
from chong.supervisor.shown_holds import ShownHolds

CLOCK_SECONDS = 2.0
"""So far may a clock be off."""
RESTART_SECONDS = 60.0
"""So long after it has ended by itself a node may be about to come back."""
FIRST_START_SECONDS = 60.0
"""So long after the start of all nodes that are known the others may be about to come."""
UNCLAIMED_SECONDS = 60.0
"""So old may a command be that nobody holds: its claim lasts half of it."""
WAL_FIXED = (3, 51, 3)
"""The first SQLite in which two connections cannot spoil the log that both reset."""
LONGEST = 300
"""Characters of a subject, and of a detail."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A survey with what several checks want of it.

    present: the nodes that live, or have ended so recently that they may be about to come back. dropped: those whose
    declaration a rebucket has dropped.
    """

    survey: Survey
    owners: Owners
    nodes: Mapping[str, NodeRecord]
    present: frozenset[str]
    dropped: frozenset[str]
    configured: ConfiguredBuckets

    @property
    def live(self) -> Iterator[NodeRecord]:
        return (node for node in self.survey.nodes if node.is_live)


def findings(survey: Survey, configured: ConfiguredBuckets | None = None) -> list[Finding]:
    """Everything that is wrong, by kind and subject; `configured` adds what this reader's chong.toml says."""
    recent = survey.now - timedelta(seconds=RESTART_SECONDS)
    present = frozenset(
        node.node for node in survey.nodes if node.is_live or (node.ended_at is not None and node.ended_at > recent)
    )
    dropped = dropped_of(survey.nodes, survey.declarations, survey.rebucketed_at)
    number = survey.deployment.num_buckets or 0
    owners = owners_of(number, survey.declarations, survey.nodes, live=present, dropped=dropped)
    scope = Scope(survey, owners, {node.node: node for node in survey.nodes}, present, dropped, configured or {})
    return sorted(_short(finding) for check in _CHECKS for finding in check(scope))


def _short(finding: Finding) -> Finding:
    advice = finding.advice or ADVICE[finding.kind]
    return Finding(finding.kind, _cut(finding.subject), _cut(finding.detail), advice)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _duplicates(scope: Scope) -> Iterator[Finding]:
    for names, buckets in _by_owners(scope, scope.owners.declared).items():
        if len(names) > 1:
            said = few([name if name in scope.present else f"{name} (not alive)" for name in names])
            yield Finding(Kind.DUPLICATE, f"buckets {format_buckets(buckets)}", f"declared by {said}")


def _uncovered(scope: Scope) -> Iterator[Finding]:
    if not scope.nodes:
        return  # nobody has ever been here
    is_first_start = _is_first_start(scope)
    for names, buckets in _by_owners(scope, scope.owners.of).items():
        if not scope.present.intersection(names) and (names or not is_first_start):
            said = f"of {names[0]}, which is not alive" if len(names) == 1 else "no owner is alive"
            detail = said if names else "no node has declared them"
            yield Finding(Kind.UNCOVERED, f"buckets {format_buckets(buckets)}", detail)


def _is_first_start(scope: Scope) -> bool:
    """Whether all nodes have just been started: those of the other buckets may be on their way."""
    started = [node.started_at for node in scope.survey.nodes if node.node not in scope.dropped]
    recent = timedelta(seconds=FIRST_START_SECONDS)
    return bool(started) and all(at is not None and abs(scope.survey.now - at) < recent for at in started)


def _by_owners(scope: Scope, owners: Callable[[int], tuple[str, ...]]) -> dict[tuple[str, ...], list[int]]:
    grouped: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for bucket in range(scope.survey.deployment.num_buckets or 0):
        grouped[owners(bucket)].append(bucket)
    return grouped


def _orphans(scope: Scope) -> Iterator[Finding]:
    """What has stood still for long and has nobody: its node is gone, or it waits in a bucket that nobody runs."""
    gone: defaultdict[str, list[OpenWork]] = defaultdict(list)
    left: defaultdict[int | None, list[OpenWork]] = defaultdict(list)
    for work in scope.survey.work:
        if not work.still:
            continue
        if work.node not in scope.present:
            gone[work.node].append(work)
        elif not work.status.is_run and not scope.present.intersection(scope.owners.of(work.bucket)):
            left[work.bucket].append(work)
    for node, works in gone.items():
        why, advice = (
            ("its node is not alive", to_replace(node))
            if node in scope.nodes
            else ("its node is not known", to_close(node))
        )
        yield _orphan(f"node {node}", works, why, advice)
    for bucket, works in left.items():
        nodes = few(sorted({work.node for work in works}))
        if bucket is None:
            advice = f"only a node without owned_buckets runs them: take it out for {nodes}, or chong stop them"
            yield _orphan("keyless work", works, "nobody who is alive owns it", advice)
        else:
            advice = f"give the bucket back to {nodes} by owned_buckets, or chong stop --bucket {bucket}"
            yield _orphan(f"bucket {bucket}", works, "nobody who is alive owns it", advice)


def _outside(scope: Scope) -> Iterator[Finding]:
    """What a living node had accepted stays with it, also in buckets that it has given away since."""
    declared: defaultdict[str, set[int]] = defaultdict(set)
    for claim in scope.survey.declarations:
        declared[claim.node].add(claim.bucket)
    works: defaultdict[str, list[OpenWork]] = defaultdict(list)
    for work in scope.survey.work:
        is_parted = work.node in scope.present and work.node not in scope.dropped and declared[work.node]
        if is_parted and work.bucket is not None and work.bucket not in declared[work.node]:
            works[work.node].append(work)
    for node, found in works.items():
        tasks = counted(sum(work.tasks for work in found), "task")
        buckets = format_buckets({work.bucket for work in found if work.bucket is not None})
        yield Finding(Kind.OUTSIDE, f"node {node}", f"{tasks} in buckets {buckets}, which it does not own any more")


def _orphan(subject: str, works: list[OpenWork], why: str, advice: str) -> Finding:
    oldest = min(works, key=lambda work: work.since)
    tasks = counted(sum(work.still for work in works), "task")
    detail = f"{tasks} without change, {oldest.task_id} since {utc_text(oldest.since)}: {why}"
    return Finding(Kind.ORPHAN, subject, detail, advice)


def _stuck(scope: Scope) -> Iterator[Finding]:
    """Queued work of a living node that nothing keeps: no hold, no full node, no run before it."""
    runs: defaultdict[str, int] = defaultdict(int)
    busy: set[tuple[str, object]] = set()
    for work in scope.survey.work:
        if work.status.is_run:
            runs[work.node] += work.tasks
            busy |= {(work.node, work.bucket), (work.node, work.name)}
    holds = ShownHolds(scope.survey.catalogue, scope.survey.holds)
    for work in scope.survey.work:
        node = scope.nodes.get(work.node)
        if work.status is not Status.QUEUED or not work.still or node is None or not node.is_live:
            continue
        if holds.on(work) is not None:
            continue
        most = node.limits.get("node")
        is_full = most is not None and runs[work.node] >= most
        if is_full or {(work.node, work.bucket), (work.node, work.name)} & busy:
            continue
        where = "without a key" if work.bucket is None else f"in bucket {work.bucket}"
        subject = f"{work.name} {where} on {work.node}"
        detail = f"{counted(work.still, 'task')} queued and none runs, {work.task_id} since {utc_text(work.since)}"
        yield Finding(Kind.STUCK, subject, detail)


def _held(scope: Scope) -> Iterator[Finding]:
    for hold in scope.survey.holds:
        subject = hold.target if hold.scope is HoldScope.NAME else f"{hold.scope} {hold.target}"
        yield Finding(Kind.HELD, subject, hold.text, to_release(hold.scope, hold.target))


def _unclaimed(scope: Scope) -> Iterator[Finding]:
    for found in scope.survey.commands:
        if scope.survey.now - found.since > timedelta(seconds=UNCLAIMED_SECONDS):
            count = counted(found.commands, "command")
            detail = f"{count} that nobody takes up, the oldest for {found.task_id} since {utc_text(found.since)}"
            yield Finding(Kind.UNCLAIMED, f"node {found.node}", detail, _to_answer(scope, found.node))


def _to_answer(scope: Scope, node: str) -> str:
    known = scope.nodes.get(node)
    if known is not None and known.is_live:
        return ADVICE[Kind.UNCLAIMED]
    return to_replace(node) if known is not None else to_close(node)


def _definitions(scope: Scope) -> Iterator[Finding]:
    of_everything = {(entry.node, entry.hold) for entry in scope.survey.catalogue if entry.name == EVERYTHING}
    for entry in scope.survey.catalogue:
        node = scope.nodes.get(entry.node)
        if node is None or not node.is_live:
            continue  # what it last said of itself counts no more
        # A hold of everything is shown with each name, and is one thing to know and to undo.
        if entry.hold and (entry.name == EVERYTHING or (entry.node, entry.hold) not in of_everything):
            what = "everything" if entry.name == EVERYTHING else entry.name
            advice = to_release_here(entry.name, entry.node)
            yield Finding(Kind.HELD, f"{what} on {entry.node}", entry.hold, advice)
        if entry.error:
            yield Finding(Kind.BROKEN, f"{entry.name or entry.module} on {entry.node}", entry.error)


def _clocks(scope: Scope) -> Iterator[Finding]:
    for node in scope.live:
        seconds = node.clock_ahead.total_seconds() if node.clock_ahead is not None else 0.0
        if abs(seconds) > CLOCK_SECONDS:
            side = "ahead of" if seconds > 0 else "behind"
            yield Finding(Kind.CLOCK, f"node {node.node}", f"{abs(seconds):.1f} s {side} the store's clock")


def _versions(scope: Scope) -> Iterator[Finding]:
    by_version: defaultdict[str, list[str]] = defaultdict(list)
    for node in scope.live:
        by_version[node.version].append(node.node)
    if len(by_version) > 1:
        said = [f"{version} on {few(names)}" for version, names in sorted(by_version.items())]
        yield Finding(Kind.VERSIONS, "chong", few(said, separator="; "))


def _configured(scope: Scope) -> Iterator[Finding]:
    """What the file gives to each node against what the node has declared."""
    number = scope.survey.deployment.num_buckets
    declared: defaultdict[str, set[int]] = defaultdict(set)
    for claim in scope.survey.declarations:
        declared[claim.node].add(claim.bucket)
    outdated = {share.number_origin: share for share in scope.configured.values() if _is_outdated(share, number)}
    for place, share in outdated.items():
        advice = (
            f"set num_buckets = {number} and each node's owned_buckets there, on every machine, then start the nodes"
        )
        yield Finding(Kind.CONFIG, "num_buckets", f"{share.num_buckets} by {place}, {number} in the store", advice)
    for name, share in scope.configured.items():
        if not _is_outdated(share, number):
            yield from _compared(scope, name, share, declared[name])
    if scope.configured:
        for node in scope.live:
            if node.node not in scope.configured:
                advice = f"add [nodes.{node.node}] to chong.toml, on every machine, and {_READ}; or end that node"
                yield Finding(Kind.CONFIG, f"unnamed node {node.node}", "alive, and not named in chong.toml", advice)


_READ = "restart the supervisors, which have read it at their start"


def _is_outdated(share: Share, number: int | None) -> bool:
    """Of the buckets of another number nothing can be compared."""
    return None not in (number, share.num_buckets) and share.num_buckets != number


def _compared(scope: Scope, name: str, share: Share, declared: Collection[int]) -> Iterator[Finding]:
    """Each cause has a subject of its own: who has acknowledged one is told of the next."""
    number = scope.survey.deployment.num_buckets
    node = scope.nodes.get(name)
    if share.fault is not None:
        yield Finding(
            Kind.CONFIG, f"table of node {name}", share.fault, f"correct it there, on every machine, and {_READ}"
        )
    elif node is None:
        if not scope.survey.nodes or _is_first_start(scope):
            return  # before any node was started that is no finding, either
        gone = f"take {name} out of chong.toml ({share.origin}), on every machine, give its buckets away, and {_READ}"
        detail = "named in chong.toml, and not known here: it has never been started, or was forgotten"
        yield Finding(Kind.CONFIG, f"unknown node {name}", detail, f"start it; if it is gone for good, {gone}")
    elif not (declared or node.is_live):
        return  # a rebucket drops what was declared, and the node says it anew when it starts
    elif _owned(share.owned, number) != _owned(declared, number):
        said = f"{_told(share.owned, number)} by chong.toml, {_told(declared, number)} by its own declaration"
        advice = f"correct {share.origin} on every machine, and restart {name} and whoever has read another one"
        yield Finding(Kind.CONFIG, f"buckets of node {name}", f"owns {said}", advice)


def _owned(buckets: Collection[int] | None, number: int | None) -> frozenset[int]:
    """Empty for a node without partition."""
    return frozenset() if buckets is None or len(buckets) == number else frozenset(buckets)


def _told(buckets: Collection[int] | None, number: int | None) -> str:
    return format_buckets(_owned(buckets, number)) or "all"


def _sqlite(scope: Scope) -> Iterator[Finding]:
    survey = scope.survey
    if survey.engine != "sqlite":
        return
    hosts = [node.host for node in one_of_each_machine(scope.live)]
    if len(hosts) > 1:
        yield Finding(Kind.HOSTS, "store", f"nodes of several machines use one SQLite file: {few(hosts)}")
    if _numbers(survey.engine_version) < WAL_FIXED:
        yield Finding(
            Kind.LIBRARY, f"SQLite {survey.engine_version}", "two connections may spoil a log that both reset"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


_CHECKS: Iterable[Callable[[Scope], Iterator[Finding]]] = (
    _duplicates,
    _uncovered,
    _orphans,
    _outside,
    _stuck,
    _unclaimed,
    _held,
    _definitions,
    _clocks,
    _versions,
    _configured,
    _sqlite,
)
