"""`chong submit-group`: a group or a pipeline, written down as JSON, to this node's supervisor."""

import json
from typing import Any, TextIO

import click

from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.option import json_option
from chong.cli.screen import print_json, remark
from chong.store.errors import ConfigurationError, Refused
from chong.store.ids import new_id
from chong.store.states import Status
from chong.supervisor.control_client import ask_node
from chong.supervisor.exits import Exit
from chong.supervisor.jsontext import refuse_constant
from chong.worker.client import Client, ClientError


@click.command(name="submit-group")
@click.argument("file", metavar="FILE", type=click.File(encoding="utf-8"))
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only when all members succeeded.")
@json_option
@click.pass_obj
def submit_group(call: Invocation, file: TextIO, *, wait: bool, as_json: bool) -> Exit:
    """Hand a group or a pipeline to this node's supervisor.

    FILE has it as JSON, "-" is the input: {"pipeline": [{"call": "fetch"}, {"call": "load", "into": "rows"}]}. Prints
    the id of the accepted group, which `chong show` shows as a tree. All of it is accepted, or nothing.
    """
    call.check_node()
    group_id, plan = new_id(), _read(file)
    with remarked_when_late(lambda: "a supervisor accepts work once it has met its store and loaded its task modules"):
        request = {"op": "submit_group", "id": group_id, "plan": plan}
        lost = f"whether it accepted group {group_id} is unknown"
        facts = ask_node(call.paths.control, request, node=call.node, lost=lost)["group"]
    if not as_json:
        print(group_id, flush=True)
    if wait:
        return _see_through(call, group_id, as_json=as_json)
    if as_json:
        print_json(facts)
    return Exit.DONE


def _read(file: TextIO) -> Any:
    try:
        return json.loads(file.read(), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file.name}: expected a plan as JSON, got text that is not JSON: {error}") from None


def _see_through(call: Invocation, group_id: str, *, as_json: bool) -> Exit:
    try:
        outcome = Client(runtime_dir=call.paths.runtime).wait_group(group_id)
    except ClientError as error:
        raise Refused(f"group {group_id} was accepted; how it ends is not known here: {error}") from None
    if as_json:
        print_json(outcome.facts)
    elif outcome.status != Status.SUCCEEDED:
        remark(f"chong: group {group_id} ended as {outcome.status}")
    return Exit.DONE if outcome.status == Status.SUCCEEDED else Exit.REFUSED
