"""`chong drain`: a node starts nothing more, until it is told that it may."""

import click

from chong.cli import candidates
from chong.cli.invocation import Invocation
from chong.cli.option import issuer_option, reason_option, wait_options
from chong.cli.shared_hold import Change, hold_targets
from chong.supervisor.exits import Exit


@click.command()
@click.argument("node", metavar="NODE", shell_complete=candidates.nodes())
@click.option("--undo", is_flag=True, help="Let it start work again.")
@reason_option("shown with the tasks that wait")
@wait_options("Wait until the node, if it is live, keeps to it.")
@issuer_option
@click.pass_obj
def drain(
    call: Invocation, *, node: str, undo: bool, reason: str | None, timeout: float | None, issued_by: str
) -> Exit:
    """Let a node start nothing more; what runs there goes on.

    From anywhere, until --undo, also over restarts of the node. What is submitted there is accepted and waits. It is a
    hold in the store, of a whole node: `chong nodes` shows it.
    """
    words = ("end of the drain requested", "may start work") if undo else ("drain requested", "drained")
    change = Change(*words, issued_by, undo=undo, reason=reason, timeout=timeout)
    return hold_targets(call, change, frozenset(), (), (node,))
