"""Options that several commands share mean the same everywhere."""

import pytest
from cli_world import World

ASKING = (
    "stop x",
    "pause x",
    "resume x",
    "hold mail",
    "hold --bucket 7",
    "drain node-a",
    "forget node-a --yes",
    "rebucket 96 --yes",
)
NAMING = (*ASKING, "unhold mail", "unhold --bucket 7", "ack 1")


@pytest.mark.parametrize("words", NAMING)
@pytest.mark.parametrize(("who", "got"), [("", "got 0"), ("x" * 201, "got 201"), ("a\nb", "got '\\n'")])
def test_what_can_be_no_issuer_is_refused(world: World, chong, words, who, got):
    """An empty one least of all: a script whose variable is not set would ask in the wrong name."""
    told = chong(*words.split(), "--as", who)
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith("chong: --as: expected ")
    assert got in told.err


@pytest.mark.parametrize("words", ASKING)
@pytest.mark.parametrize(("why", "got"), [("", "got 0"), ("x" * 501, "got 501"), ("a\nb", "got '\\n'")])
def test_what_can_be_no_reason_is_refused(world: World, chong, words, why, got):
    """It is told in one line and nothing is asked."""
    told = chong(*words.split(), "--reason", why)
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith("chong: --reason: expected ")
    assert got in told.err
