"""A supervisor beside rows of the store of which a part makes no sense."""

import psycopg
from node_bench import Enter, S, Supervised, wait_until

SPOIL = (
    "UPDATE holds SET since = 'infinity' WHERE target = 'noop'",
    "UPDATE nodes SET limits = '[]'",
    "UPDATE catalogue SET options = '[]' WHERE node = 'two'",
    "UPDATE deployment SET holds_revision = holds_revision + 1",
)
TELLING = ("holds noop, column since", "nodes two, column limits")


def test_a_node_starts_beside_rows_that_it_cannot_read(fleet: Enter, outside: Supervised):
    """What is held waits, before the damage and after a start beside it; the rest runs, and each fault is told."""
    node, _ = fleet("--node", "one"), fleet("--node", "two")
    assert outside.cli("hold", "--name", "noop", "--wait").code == 0
    held = node.submit("noop")
    with psycopg.connect(str(outside.address), autocommit=True) as other:
        for statement in SPOIL:
            other.execute(statement)
        wait_until(lambda: node.events("row_unreadable"), "the word on the hold")
        assert node.terminate() == 0
        node.start("--node", "one")
        free = node.submit("hold", seconds=0.1)
        assert node.end_of(free).status is S.SUCCEEDED
        assert node.task(held).status is S.QUEUED
        told = [event["error"] for event in node.events("row_unreadable")]
        assert all(any(text in line for line in told) for text in TELLING), told
        answer = outside.cli("nodes")
        assert (answer.code, answer.out.count(" live ")) == (1, 2)
        assert sorted(answer.err.splitlines()) == [
            "chong: store: catalogue two, column options: expected a JSON object, got '[]'",
            "chong: store: holds noop, column since: expected a time with a zone, got 'infinity'",
            "chong: store: nodes two, column limits: expected a JSON object of whole numbers, got '[]'",
        ]
        assert outside.cli("unhold", "--name", "noop", "--wait").code == 1
        assert node.end_of(held).status is S.SUCCEEDED
