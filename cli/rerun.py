"""`chong rerun`: a task that is over once more, as a new one, with the parameters that its node has kept."""

import click

from chong.cli.candidates import ids
from chong.cli.find import find_one
from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.option import json_option
from chong.cli.reach import reach
from chong.cli.screen import print_json
from chong.cli.seethrough import see_through
from chong.store.errors import Refused
from chong.store.ids import is_id, new_id
from chong.store.states import FINAL
from chong.supervisor.control_client import ask_node
from chong.supervisor.exits import Exit


@click.command()
@click.argument("part", metavar="ID", shell_complete=ids(lambda: sorted(FINAL)))
@click.option("--wait", is_flag=True, help="Wait for the end; exit 0 only when it succeeded.")
@json_option
@click.pass_obj
def rerun(call: Invocation, part: str, *, wait: bool, as_json: bool) -> Exit:
    """Run a task that is over once more, with its parameters.

    On its own node, which keeps the parameters for some days after the end. Prints the id of the new task; what it was
    submitted with counts again, but for a time to wait for.
    """
    call.check_node()
    old, again = _whole(call, part), new_id()
    with remarked_when_late(lambda: "a supervisor accepts work once it has met its store and loaded its task modules"):
        answer = ask_node(call.paths.control, {"op": "rerun", "id": old, "as": again}, node=call.node)
    if wait:
        return see_through(call, again, as_json=as_json)
    if as_json:
        print_json(answer["task"])
    else:
        print(again)
    return Exit.DONE


def _whole(call: Invocation, part: str) -> str:
    """The whole id; the store need not know it any more, nor be there for that."""
    if is_id(part):
        return part
    with reach(call) as reached:
        task = find_one(reached.store, part)
    if task.node != call.node:
        raise Refused(
            f"task {task.id}: expected one of node {call.node}, got one of {task.node}: its parameters are there"
        )
    return task.id
