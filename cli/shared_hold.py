"""Holds in the store: asking for them, and, when wanted, waiting until every live node keeps to them."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import click

from chong.cli.filters import check_buckets
from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import remark
from chong.cli.times import span
from chong.cli.wait import wait_until
from chong.store.buckets import BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.few import few
from chong.store.model import HoldScope, SharedHold
from chong.store.query import TaskQuery
from chong.store.states import WAITING
from chong.supervisor.exits import Exit
from chong.supervisor.keys import NODE_LIMIT
from chong.supervisor.nearest import suggestion
from chong.supervisor.oneline import counted
from chong.supervisor.shown_holds import Target, freed_by
from chong.supervisor.submission import check_text
from chong.worker.options import NAME_LIMIT


@dataclass(frozen=True, slots=True)
class Change:
    """What is wanted of some targets, in an operator's words. `undo`: that they are held no more.

    `requested` and `done` say so before and after the nodes have answered; `timeout`: seconds to wait for them, None
    for not waiting.
    """

    requested: str
    done: str
    by: str
    undo: bool = False
    reason: str | None = None
    timeout: float | None = None


def hold_targets(
    call: Invocation, change: Change, buckets: frozenset[int], names: Sequence[str], nodes: Sequence[str] = ()
) -> Exit:
    """Hold or release them, each once; whatever does not exist is refused before anything is changed."""
    said = call.said("num_buckets")
    if said is not None:
        check_buckets(BucketPolicy(said.value), buckets)
    targets = [(HoldScope.BUCKET, str(bucket)) for bucket in sorted(buckets)]
    targets += [(HoldScope.NAME, name) for name in dict.fromkeys(names)]
    targets += [(HoldScope.NODE, node) for node in dict.fromkeys(nodes)]
    for what, called, limit in (("--name", names, NAME_LIMIT), ("node", nodes, NODE_LIMIT)):
        for name in called:
            check_text(what, name, limit)
    with reach(call) as reached:
        check_buckets(reached.policy, buckets)
        had = holds_by_target(reached.store)
        _check_known(reached.store, targets, had)
        freed = freed_by(reached.store.survey(still=timedelta(0)), targets) if change.undo else {}
        for scope, target in targets:
            if change.undo:
                revision = reached.store.lift_hold(scope, target)
            else:
                hold = SharedHold(scope=scope, target=target, by=change.by, reason=change.reason)
                revision = reached.store.place_hold(hold)
        unheard = _await(reached.store, targets, revision, change.timeout)
        now = holds_by_target(reached.store)
    for each in targets:
        _tell(change, each, had.get(each), now.get(each), unheard, freed.get(each, 0))
    return Exit.REFUSED if unheard and change.timeout is not None else Exit.DONE


def holds_by_target(store: TaskStore) -> dict[Target, SharedHold]:
    return {(hold.scope, hold.target): hold for hold in store.holds().holds}


def _check_known(store: TaskStore, targets: Iterable[Target], held: Container[Target]) -> None:
    """A definition may be gone while its tasks still wait, and anything while it is held. The first one is named."""
    for scope, target in (each for each in targets if each not in held):
        if scope is HoldScope.NODE:
            check_node(target, [node.node for node in store.nodes()])
        elif scope is HoldScope.NAME:
            _check_name(store, target)


def check_node(node: str, known: Sequence[str]) -> None:
    if node not in known:
        raise Refused(f"no node is called {node!r}; {suggestion(node, known, 'see chong nodes')}")


def remark_stranger(store: TaskStore, node: str) -> None:
    """For a look that has found nothing of this node: there may be none of that name."""
    try:
        check_node(node, [known.node for known in store.nodes()])
    except Refused as refusal:
        remark(f"chong: {escape(str(refusal))}")


def _check_name(store: TaskStore, name: str) -> None:
    known = {entry.name for entry in store.catalogue()}
    if name not in known and not store.query(TaskQuery(names=frozenset({name}), statuses=WAITING, limit=1)):
        raise Refused(f"unknown task {name!r}; {suggestion(name, known, 'see chong tasks')}")


def _await(store: TaskStore, targets: list[Target], revision: int, timeout: float | None) -> list[str]:
    """The live nodes that have not answered."""
    unheard = _unheard(store, targets, revision)

    def all_have_answered() -> bool | None:
        unheard[:] = _unheard(store, targets, revision)
        return True if not unheard else None

    if unheard and timeout is not None:
        with remarked_when_late(lambda: f"waiting for {escape(few(unheard))}"):
            wait_until(all_have_answered, timeout=timeout)
    return unheard


def _unheard(store: TaskStore, targets: list[Target], revision: int) -> list[str]:
    """Of a bucket or a name every node may have work, also one that does not own it any more."""
    is_everywhere = any(scope is not HoldScope.NODE for scope, _ in targets)
    concerned = {target for _, target in targets}
    return [
        node.node
        for node in store.nodes()
        if node.is_live
        and (is_everywhere or node.node in concerned)
        and (node.holds_seen is None or node.holds_seen < revision)
    ]


def _tell(
    change: Change, target: Target, had: SharedHold | None, now: SharedHold | None, unheard: Sequence[str], freed: int
) -> None:
    who = escape(f"{target[0]} {target[1]}")
    text = escape(f": {now.text}") if now is not None else ""
    if change.undo and now is None:
        text = f", {counted(freed, 'task')} waiting for a slot"
    if change.undo and had is None:
        print(f"{who}: was not held")
    elif unheard and change.timeout is not None:
        waited = f"not in effect after {span(change.timeout)}, no word from {few(unheard)}"
        remark(f"chong: {who}: {change.requested}, {escape(waited)}; the request stands")
    elif unheard:
        print(f"{who}: {change.requested}{text}")
    else:
        print(f"{who}: {change.done}{' already' if had is not None and not change.undo else ''}{text}")


def check_choice(*, is_here: bool, is_everywhere: bool) -> None:
    if is_here and is_everywhere:
        raise click.UsageError("expected either NAME for this node, or --bucket and --name for all nodes, got both")
    if not is_here and not is_everywhere:
        raise click.UsageError("expected NAME for this node, or --bucket or --name for all nodes, got none")
