"""A group as `chong show` shows it: on its node the tree, elsewhere what the store has, a list of its members."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from chong.cli.find import TAIL
from chong.cli.invocation import Invocation
from chong.cli.render import escape, paint, sheet
from chong.cli.screen import print_json, print_lines, print_table, shows_colour
from chong.cli.standing import standings
from chong.cli.taskrow import COLUMNS, STYLES, task_row
from chong.cli.times import stamp, utc_now
from chong.store.contract import TaskStore
from chong.store.errors import Refused
from chong.store.ids import is_id, is_part_of_id
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.store.view import as_json as view_of
from chong.supervisor.control_client import ask_node
from chong.supervisor.live_group import status_of


def show_group(call: Invocation, store: TaskStore, part: str, *, as_json: bool) -> bool:
    """False when there is none that could be meant."""
    facts = _asked(call, part.lower())
    if facts is None:
        return is_id(part) and _show_members(store, part, as_json=as_json)
    if as_json:
        print_json(facts)
    else:
        colour = shows_colour()
        print_lines([*sheet([(f"group {facts['id']}", _facts(facts))], colour=colour), ""])
        print_lines(tree_lines(facts["plan"], colour=colour))
    return True


def _asked(call: Invocation, part: str) -> dict[str, Any] | None:
    """What this node knows; None also when nobody answers here, or it is another node's."""
    if not part or not is_part_of_id(part):
        return None
    try:
        return dict(ask_node(call.paths.control, {"op": "group", "id": part})["group"])
    except Refused:
        return None


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [
        ("status", facts["status"]),
        ("created", _moment(facts["created_at"])),
        ("ended", _moment(facts["ended_at"])),
    ]


def _moment(text: str | None) -> str | None:
    return None if text is None else stamp(datetime.fromisoformat(text))


def tree_lines(part: Mapping[str, Any], indent: str = "", *, colour: bool) -> Iterator[str]:
    """One line for each group, pipeline and call, those within another one indented."""
    if "call" in part:
        status = str(part["status"])
        words = [part["id"][-TAIL:], part["call"], *([part["key"]] if "key" in part else [])]
        told = " ".join(map(escape, words))
        yield f"{indent}{told}  {paint(status, STYLES.get(status, 'wait'), colour=colour)}"
        return
    yield indent + _title(part)
    for inner in part["group"] if "group" in part else part["pipeline"]:
        yield from tree_lines(inner, indent + "  ", colour=colour)


def _title(part: Mapping[str, Any]) -> str:
    if "pipeline" in part:
        return "pipeline"
    limits = ["fail fast"] if part.get("fail_fast") else []
    limits += [f"at most {part['max_parallel']} at one time"] if "max_parallel" in part else []
    return ", ".join(["group", *limits])


def _show_members(store: TaskStore, group_id: str, *, as_json: bool) -> bool:
    """In the order of the plan, which their ids keep."""
    members = list(all_tasks(store, TaskQuery(group=group_id)))[::-1]
    if not members:
        return False
    status = status_of(member.status for member in members)
    if as_json:
        print_json({"id": group_id, "status": status, "members": [view_of(member) for member in members]})
        return True
    node = members[0].node
    hint = f"chong show on node {node}, which alone knows its structure"
    title, facts = f"group {group_id}", [("status", status), ("node", node), ("tree", hint)]
    print_lines([*sheet([(title, facts)], colour=shows_colour()), ""])
    now = utc_now()
    known = standings(store, members)
    print_table(COLUMNS, [task_row(task, now, standing) for task, standing in zip(members, known, strict=True)])
    return True
