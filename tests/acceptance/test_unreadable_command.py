"""A request in the store that a real node cannot read."""

from datetime import UTC, datetime

import psycopg
from node_bench import Enter, S, Supervised, wait_until

STRANGE = (
    "INSERT INTO commands (id, task_id, node, action, issued_by, issued_at)"
    " SELECT 'strange', id, node, 'explode', 'eve', %s FROM tasks WHERE id = %s"
)


def test_a_node_carries_out_what_it_can_read(fleet: Enter, outside: Supervised):
    """The older request, of a later version perhaps, is told once and refused; the stop behind it takes effect."""
    node = fleet("--node", "one")
    strange, asked = node.submit("hold"), node.submit("hold")
    for task_id in (strange, asked):
        node.wait_for(task_id, S.RUNNING)
    with psycopg.connect(str(outside.address), autocommit=True) as other:
        other.execute(STRANGE, (datetime.now(UTC), strange))
        assert outside.cli("stop", asked, "--wait").code == 0
        refused = "SELECT detail FROM commands WHERE id = 'strange' AND outcome = 'refused'"
        wait_until(lambda: other.execute(refused).fetchone(), "its end")
    (told,) = wait_until(lambda: node.events("command_unreadable"), "the word on it")
    expected = "store: commands strange, column action: expected an action of chong, got 'explode'"
    assert told["error"] == expected
    assert node.task(strange).status is S.RUNNING
    assert outside.cli("stop", strange, "--wait").code == 0
    assert outside.cli("show", strange).code == 0
    assert len(node.events("command_unreadable")) == 1
