"""Groups on the command line: as a list where their node is not."""

from cli_world import S, World

from chong.cli.show_group import tree_lines
from chong.store.ids import new_id


def test_elsewhere_a_group_is_a_list(world: World, chong):
    """The store has no more than the group of each task; a part of an id is not enough there."""
    group_id = new_id()
    first = world.add("orders.fetch", S.SUCCEEDED, group_id=group_id)
    world.add("orders.sum", S.QUEUED, group_id=group_id)
    shown = chong("show", group_id)
    assert shown.code == 0
    assert shown.out.index("orders.fetch") < shown.out.index("orders.sum")
    assert "chong show on node node-a, which alone knows its structure" in shown.out
    told = chong("show", group_id, "--json").json
    assert (told["status"], told["members"][0]["id"]) == ("running", first.id)
    assert chong("show", group_id[-12:]).code == 1
    assert "expected the whole id of a group" in chong("ps", "--group", group_id[-8:]).err


def test_a_tree_shows_no_control_characters():
    """Whatever a task or a key is called."""
    call = {"call": "a\x1b[31m", "key": "\u202e", "id": new_id(), "status": "queued"}
    lines = list(tree_lines({"group": [call], "fail_fast": True}, colour=False))
    assert lines == ["group, fail fast", f"  {call['id'][-8:]} a\\x1b[31m \\u202e  queued"]
