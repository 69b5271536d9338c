"""A request in the store that a real node cannot read."""

import sqlite3
from contextlib import closing
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


WITH_NUL = (
    "INSERT INTO commands (id, task_id, node, action, issued_by, issued_at, reason)"
    " SELECT {id}, id, node, 'pause', {by}, created_at, {reason} FROM tasks WHERE id = ?"
)
NULS = {
    "id": {"id": "'a' || char(0)", "by": "'eve'", "reason": "NULL"},
    "issued_by": {"id": "'b'", "by": "'eve' || char(0)", "reason": "NULL"},
    "reason": {"id": "'c'", "by": "'eve'", "reason": "char(0) || 'why'"},
}


def test_a_request_with_a_nul_costs_neither_the_node_nor_the_run(node: Supervised):
    """SQLite keeps it, by another's hand: it is told and refused, for a living run and for an ended task.

    Nobody could write it again, not even to end it by its id.
    """
    ended, own = node.submit("noop"), node.begun("hold")
    node.end_of(ended)
    with closing(sqlite3.connect(node.paths.default_store, isolation_level=None)) as other:
        for words in NULS.values():
            for task_id in (ended, own):
                spoilt = {**words, "id": f"{words['id']} || '{task_id}'"}
                other.execute(WITH_NUL.format(**spoilt), [task_id])
        open_ones = "SELECT count(*) FROM commands WHERE outcome IS NOT 'refused'"
        wait_until(lambda: other.execute(open_ones).fetchone() == (0,), "their ends")
    told = wait_until(lambda: len(found := node.events("command_unreadable")) == 6 and found, "the words on all")
    assert {event["error"].split("column ")[1].split(":")[0] for event in told} == set(NULS)
    assert node.task(own).status is S.RUNNING
    assert node.events("task_desynced") == []
    assert node.cli("stop", own, "--wait").code == 0
