"""`chong hold` and `unhold` where no supervisor answers; beside one they are tried with whole nodes."""

import pytest
from cli_world import World


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_without_a_supervisor_nothing_is_held(world: World, chong, command):
    """A hold is the node's own; one line says who would have to run."""
    answer = chong(command, "mail")
    assert (answer.code, answer.out) == (1, "")
    assert "is chong-supervisor running?" in answer.err


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_names_are_needed(world: World, chong, command):
    """Everything is held by its own word, never by forgetting one."""
    assert chong(command).code == 2
