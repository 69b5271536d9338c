"""Commands that let the work of a name wait on this node, and let it go on."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from chong.cli import candidates
from chong.cli.invocation import Invocation
from chong.cli.render import escape
from chong.cli.request import default_issuer
from chong.supervisor.control_client import ask_node


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.names())
@click.option("--reason", help="Why; shown with the tasks that wait.")
@click.option(
    "--as",
    "issued_by",
    metavar="WHO",
    shell_complete=candidates.values(candidates.issuers),
    help="Who asks; default USER@HOST.",
)
@click.pass_obj
def hold(call: Invocation, *, names: tuple[str, ...], reason: str | None, issued_by: str | None) -> None:
    """Let tasks of a name wait on this node.

    Until it is released, also over restarts. What runs goes on. "*" holds everything.
    """
    request = {"op": "hold", "names": names, "by": issued_by or default_issuer(), "reason": reason}
    _ask(call, request, _held)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.names(held=True))
@click.option(
    "--as",
    "issued_by",
    metavar="WHO",
    shell_complete=candidates.values(candidates.issuers),
    help="Who asks; default USER@HOST.",
)
@click.pass_obj
def unhold(call: Invocation, *, names: tuple[str, ...], issued_by: str | None) -> None:
    """Let tasks of a held name start again on this node.

    Also one that the node holds by itself, because it crashed too often.
    """
    _ask(call, {"op": "unhold", "names": names, "by": issued_by or default_issuer()}, _released)


def _ask(call: Invocation, request: dict[str, Any], told: Callable[[Mapping[str, Any]], str]) -> None:
    call.check_node()
    for fact in ask_node(call.paths.control, request, node=call.node)["names"]:
        print(escape(f"{fact['name']}: {told(fact)}"))


def _held(fact: Mapping[str, Any]) -> str:
    already = "" if fact["had"] != fact["hold"] else " already"
    return f"held{already}, {_tasks(fact['waiting'])} waiting: {fact['hold']}{_doomed(fact, 'will fail when released')}"


def _released(fact: Mapping[str, Any]) -> str:
    if fact["hold"] is not None:
        doomed = _doomed(fact, "will fail when that is released")
        return f"{'released' if fact['had'] else 'was not held'}, but everything is held: {fact['hold']}{doomed}"
    if not fact["had"]:
        return "was not held"
    return f"released, {_tasks(fact['waiting'])} waiting for a slot{_doomed(fact, 'will fail now')}"


def _doomed(fact: Mapping[str, Any], what: str) -> str:
    """Of waiting tasks that nothing can run; a supervisor of another version may not tell."""
    count = fact.get("undefined", 0)
    return f"; {_tasks(count)} {what} (import_error): no task module defines the name any more" if count else ""


def _tasks(count: int) -> str:
    return f"{count} task" + ("" if count == 1 else "s")
