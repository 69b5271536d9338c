"""`chong reload`: this node's supervisor loads the task modules anew."""

from collections.abc import Mapping
from typing import Any

import click

from chong.cli.invocation import Invocation
from chong.cli.late import remarked_when_late
from chong.cli.option import json_option
from chong.cli.render import escape
from chong.cli.screen import print_json, remark
from chong.supervisor.control_client import ask_node
from chong.supervisor.exits import Exit
from chong.supervisor.oneline import counted
from chong.supervisor.reloads import RELOAD_SECONDS


@click.command()
@json_option
@click.pass_obj
def reload(call: Invocation, *, as_json: bool) -> Exit:
    """Let this node's supervisor load the task modules anew.

    Waits until new runs get the new code. Runs under way keep theirs. A module that cannot be loaded costs its own
    tasks only, and is told. Exit 1 when one could not, and when the old code stays: the error says why.
    """
    call.check_node()
    lost = "whether it loads new code is unknown, its log says"
    with remarked_when_late(lambda: "new runs get the new code when every module has been tried out"):
        loaded = ask_node(call.paths.control, {"op": "reload"}, node=call.node, timeout=RELOAD_SECONDS, lost=lost)
    if as_json:
        print_json(loaded)
        return _code(loaded)
    print(f"generation {loaded['generation']} is live, with {counted(loaded['tasks'], 'task')}")
    for module, error in sorted(loaded["errors"].items()):
        remark(f"chong: module {escape(module)} failed: {escape(error)}")
    for name, error in sorted(loaded.get("refused", {}).items()):
        remark(f"chong: task {escape(name)}: {escape(error)}")
    return _code(loaded)


def _code(loaded: Mapping[str, Any]) -> Exit:
    return Exit.REFUSED if loaded["errors"] or loaded.get("refused") else Exit.DONE
