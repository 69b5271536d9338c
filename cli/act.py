"""Commands that ask for something: of this node's supervisor, or of whichever node a task belongs to."""

import functools
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from chong.cli import candidates
from chong.cli.candidates import names, open_ids
from chong.cli.due import due_of, read_due, read_whole
from chong.cli.filters import Filter, filtered
from chong.cli.handing import hand_over
from chong.cli.invocation import Invocation
from chong.cli.option import issuer_option, json_option, params_options, reason_option, wait_options
from chong.cli.reach import reach
from chong.cli.request import Request, carry_out, targets
from chong.cli.screen import print_json, remark
from chong.cli.seethrough import see_through
from chong.cli.times import utc_now
from chong.cli.values import read_duration, read_params, read_texts, reads
from chong.store.errors import StoreUnavailable
from chong.store.model import Action
from chong.supervisor.exits import Exit
from chong.supervisor.submission import Submission


@click.command()
@click.argument("name", shell_complete=names())
@click.option(
    "--key", shell_complete=candidates.kept(candidates.keys), help="Key that the task works for; decides its bucket."
)
@params_options
@click.option("--unique", metavar="KEY", help="Refuse while an unfinished task has the same unique key.")
@click.option("--at", metavar="WHEN", callback=reads(read_due), help="Not before this ISO time; without zone local.")
@click.option(
    "--in", "wait_for", metavar="DURATION", callback=reads(read_duration), help="Not before so long from now."
)
@click.option("--priority", metavar="N", callback=reads(read_whole), help="In place of the definition's; higher first.")
@click.option("--retries", metavar="N", callback=reads(read_whole), help="In place of the definition's.")
@click.option(
    "--run-timeout", metavar="DURATION", callback=reads(read_duration), help="In place of the definition's timeout."
)
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only when it succeeded.")
@json_option
@click.pass_obj
def submit(
    call: Invocation,
    /,
    name: str,
    *,
    key: str | None,
    assignments: tuple[str, ...],
    params: str | None,
    unique: str | None,
    at: datetime | None,
    wait_for: float | None,
    wait: bool,
    as_json: bool,
    **terms: Any,
) -> Exit:
    """Hand a task to this node's supervisor.

    Prints the id of the accepted task. Parameters go over the node's own socket and never leave it.
    """
    call.check_node()
    due = due_of(at, wait_for, utc_now())
    given, texts = read_params(params), read_texts(assignments)
    submission = Submission(name=name, key=key, params=given, texts=texts, unique_key=unique, due_at=due, **terms)
    _check_ownership(call, always=wait)
    accepted = hand_over(call, submission)
    if wait:
        return see_through(call, submission.id, as_json=as_json)
    if as_json:
        print_json(accepted)
    else:
        print(submission.id)
    return Exit.DONE


def _check_ownership(call: Invocation, *, always: bool) -> None:
    """The store's being away stops nobody: the supervisor judges the bucket itself. A wrong address does.

    always: also where nothing is said that could be wrong, as the store will be asked.
    """
    if call.num_buckets is None and call.owned is None and not always:
        return
    try:
        with reach(call):
            pass
    except StoreUnavailable as error:
        remark(f"chong: number of buckets not compared, the store is out of reach: {error}")


def _asking(function: Callable[..., Exit]) -> Callable[..., Any]:
    """The arguments and options that stop, pause and resume share."""

    @functools.wraps(function)
    def asked(call: Invocation, **said: Any) -> Exit:
        return function(call, **said)

    for add in reversed(_ASKING):
        asked = add(asked)
    return asked


_ASKING: tuple[Callable[..., Any], ...] = (
    click.argument("parts", metavar="[ID]...", nargs=-1, shell_complete=open_ids()),
    filtered,
    wait_options("Wait until it is in effect."),
    reason_option("kept with the task"),
    issuer_option,
    click.pass_obj,
)


@click.command()
@_asking
def stop(call: Invocation, **said: Any) -> Exit:
    """Ask tasks to stop.

    Give ids (beginning or end), or filters. Without --wait exit 0 means that the request was accepted.
    """
    return _ask(call, Action.STOP, **said)


@click.command()
@click.option("--freeze", is_flag=True, help="At once, by stopping their processes, checkpoint or not.")
@_asking
def pause(call: Invocation, *, freeze: bool, **said: Any) -> Exit:
    """Ask running tasks to pause at their next checkpoint.

    Give ids (beginning or end), or filters. Without --wait exit 0 means that the request was accepted.
    """
    return _ask(call, Action.FREEZE if freeze else Action.PAUSE, **said)


@click.command()
@_asking
def resume(call: Invocation, **said: Any) -> Exit:
    """Ask paused tasks to go on.

    Give ids (beginning or end), or filters. Without --wait exit 0 means that the request was accepted.
    """
    return _ask(call, Action.RESUME, **said)


def _ask(
    call: Invocation,
    action: Action,
    *,
    parts: tuple[str, ...],
    chosen: Filter,
    timeout: float | None,
    reason: str | None,
    issued_by: str,
) -> Exit:
    request = Request(action, issued_by, reason, timeout)
    with reach(call) as reached:
        return carry_out(reached, request, targets(reached, action, parts, chosen))
