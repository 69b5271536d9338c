"""Commands that let work wait, on this node or on all, and let it go on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click

from chong.cli import candidates
from chong.cli.candidates import Complete
from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.option import issuer_option, reason_option, wait_options
from chong.cli.render import escape
from chong.cli.shared_hold import Change, check_choice, hold_targets
from chong.cli.values import reads
from chong.store.buckets import parse_buckets
from chong.store.errors import ConfigurationError
from chong.supervisor.control_client import ask_node
from chong.supervisor.exits import Exit
from chong.supervisor.oneline import counted
from chong.supervisor.submission import check_text
from chong.worker.options import NAME_LIMIT

_ALWAYS: tuple[Callable[..., Any], ...] = (
    wait_options("With --bucket or --name: wait until every live node keeps to it."),
    issuer_option,
    click.pass_obj,
)


def _everywhere(*, buckets: Complete | None, names: Complete) -> Callable[[Callable[..., Exit]], Callable[..., Any]]:
    """The options of what is held in the store; `buckets` and `names` complete them."""
    options = (
        click.option(
            "--bucket",
            "buckets",
            metavar="LIST",
            callback=reads(parse_buckets),
            help="These, on all nodes.",
            shell_complete=buckets,
        ),
        click.option(
            "--name",
            "named",
            metavar="NAME",
            multiple=True,
            help="This one, on all nodes; may be repeated.",
            shell_complete=names,
        ),
        *_ALWAYS,
    )

    def add_all(function: Callable[..., Exit]) -> Callable[..., Any]:
        for add in reversed(options):
            function = add(function)
        return function

    return add_all


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=candidates.names())
@reason_option("shown with the tasks that wait")
@_everywhere(buckets=None, names=candidates.names_everywhere())
def hold(call: Invocation, *, names: tuple[str, ...], issued_by: str, reason: str | None, **said: Any) -> Exit:
    """Let tasks wait: of a name on this node, of a bucket or a name on all.

    Until it is released, also over restarts. What runs goes on.

    NAME is held by this node alone: its supervisor is asked, it counts at once, and also while the store is away. "*"
    holds everything here. --bucket and --name are held in the store, from anywhere: each node keeps to them as soon
    as it sees them. Without --wait "requested" means that some live nodes have not said so yet.
    """
    return _carry_out(call, names, Change("hold requested", "held", issued_by, reason=reason), told=_held, **said)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=candidates.names(held=True))
@_everywhere(buckets=candidates.held_targets("bucket"), names=candidates.held_targets("name"))
def unhold(call: Invocation, *, names: tuple[str, ...], issued_by: str, **said: Any) -> Exit:
    """Let what was held start again.

    NAME is released on this node, also one that the node holds by itself because it crashed too often. --bucket and
    --name are released in the store; what a node holds by its own word stays held there.
    """
    return _carry_out(
        call, names, Change("release requested", "released", issued_by, undo=True), told=_released, **said
    )


def _carry_out(
    call: Invocation,
    names: tuple[str, ...],
    change: Change,
    *,
    told: Callable[[Mapping[str, Any]], str],
    buckets: frozenset[int] | None,
    named: tuple[str, ...],
    timeout: float | None,
) -> Exit:
    is_everywhere = bool(buckets or named)
    check_choice(is_here=bool(names), is_everywhere=is_everywhere)
    if is_everywhere:
        change = replace(change, timeout=timeout)
        return hold_targets(call, change, buckets or frozenset(), named)
    if timeout is not None:
        raise ConfigurationError("--wait: expected beside --bucket or --name, got NAME: this node keeps to it at once")
    for name in names:
        check_text("task name", name, NAME_LIMIT)
    request = {"op": "unhold" if change.undo else "hold", "names": names, "by": change.by}
    _ask(call, request | ({} if change.undo else {"reason": change.reason}), told)
    return Exit.DONE


def _ask(call: Invocation, request: dict[str, Any], told: Callable[[Mapping[str, Any]], str]) -> None:
    call.check_node()
    with remarked_when_late(lambda: f"the supervisor of node {call.node} has been asked"):
        facts = ask_node(call.paths.control, request, node=call.node)["names"]
    for fact in facts:
        print(escape(f"{fact['name']}: {told(fact)}"))


def _held(fact: Mapping[str, Any]) -> str:
    already = "" if fact["had"] != fact["hold"] else " already"
    waiting = counted(fact["waiting"], "task")
    return f"held{already}, {waiting} waiting: {fact['hold']}{_doomed(fact, 'will fail when released')}"


def _released(fact: Mapping[str, Any]) -> str:
    if fact["hold"] is not None:
        doomed = _doomed(fact, "will fail when that is released")
        return f"{'released' if fact['had'] else 'was not held'}, but everything is held: {fact['hold']}{doomed}"
    if (shared := fact.get("shared")) is not None:
        return f"{'released here' if fact['had'] else 'was not held here'}, but held in the store: {shared}"
    if not fact["had"]:
        return "was not held"
    return f"released, {counted(fact['waiting'], 'task')} waiting for a slot{_doomed(fact, 'will fail now')}"


def _doomed(fact: Mapping[str, Any], what: str) -> str:
    """Of waiting tasks that nothing can run; a supervisor of another version may not tell."""
    count = fact.get("undefined", 0)
    return (
        f"; {counted(count, 'task')} {what} (import_error): no task module defines the name any more" if count else ""
    )
