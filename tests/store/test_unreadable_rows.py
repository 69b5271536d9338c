"""A row that says what chong never writes is named by table, key and column, whoever reads it."""

import pytest

from chong.store.codec import Codec
from chong.store.columns import MICROSECONDS
from chong.store.errors import UnreadableRow

CODEC = Codec(MICROSECONDS)
DEEP = "[" * 100_000
ROWS = {
    "no JSON": (CODEC.snapshot_from_row, "id", "tags", "nonsense", "tasks k, column tags: expected a JSON list"),
    "other JSON": (CODEC.snapshot_from_row, "id", "flags", '"text"', "tasks k, column flags: expected a JSON list"),
    "too deep": (CODEC.snapshot_from_row, "id", "tags", DEEP, "tasks k, column tags: expected a JSON list"),
    "no state": (
        CODEC.snapshot_from_row,
        "id",
        "status",
        "asleep",
        "tasks k, column status: expected a state of chong",
    ),
    "no time": (CODEC.snapshot_from_row, "id", "ended_at", "noon", "tasks k, column ended_at: expected a time"),
    "far too late": (CODEC.snapshot_from_row, "id", "ended_at", 10**18, "tasks k, column ended_at: expected a time"),
    "half a stop": (CODEC.snapshot_from_row, "id", "stop", "{}", "tasks k, column stop: expected a JSON object"),
    "half a failure": (CODEC.snapshot_from_row, "id", "failure", "[]", "tasks k, column failure: expected a JSON list"),
    "an outcome": (CODEC.snapshot_from_row, "id", "outcome", "{", "tasks k, column outcome: expected JSON"),
    "a move": (
        CODEC.transition_from_row,
        "task_id",
        "target",
        "asleep",
        "transitions k, column target: expected a state",
    ),
    "progress": (CODEC.lease_from_row, "task_id", "progress", "{}", "leases k, column progress: expected a JSON list"),
    "limits": (CODEC.node_from_row, "node", "limits", "[]", "nodes k, column limits: expected a JSON object"),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_value_is_named(what):
    """In one line, which is short whatever the value is."""
    read, key, column, value, said = ROWS[what]
    with pytest.raises(UnreadableRow) as error:
        read({key: "k", column: value})
    assert f"store: {said}" in str(error.value)
    assert len(str(error.value)) < 250
