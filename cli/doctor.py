"""`chong doctor`: what is wrong with the deployment."""

from datetime import timedelta

import click

from chong.cli.invocation import Invocation
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import print_json, print_lines, remark
from chong.cli.values import read_age, reads
from chong.supervisor.checks import findings
from chong.supervisor.configured_buckets import configured_buckets
from chong.supervisor.exits import Exit
from chong.supervisor.keys import KEYS


@click.command()
@click.option(
    "--orphan-after",
    metavar="TIME",
    callback=reads(read_age),
    help="How long a task must not have changed to count as left alone; default: orphan_after of chong.toml, or 10m.",
)
@json_option
@click.pass_obj
def doctor(call: Invocation, *, orphan_after: timedelta | None, as_json: bool) -> Exit:
    """Say what is wrong with the deployment, and what to do about it.

    One line for each thing, from one look at the store; changes nothing. Exit 1 when something is wrong. That no node
    has been started yet is not wrong, and is remarked on.
    """
    if orphan_after is None:
        orphan_after = timedelta(seconds=call.config.value("orphan_after") or KEYS["orphan_after"].default)
    with reach(call) as reached:
        survey = reached.store.survey(still=orphan_after)
        found = findings(survey, configured_buckets(call.config))
    if not survey.nodes:
        remark("chong: no node is known to this store, so nothing runs: start one with chong-supervisor --node NAME")
    if as_json:
        print_json(found)
    else:
        lines = (f"{one.kind}: {one.subject}: {one.detail}; {one.advice}" for one in found)
        print_lines(map(escape, lines) if found else ["nothing found"])
    return Exit.REFUSED if found else Exit.DONE
