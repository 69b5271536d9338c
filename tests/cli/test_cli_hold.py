"""`chong hold` and `unhold` where no supervisor answers; beside one they are tried with whole nodes."""

import pytest
from cli_world import World

from chong.cli import hold


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_without_a_supervisor_nothing_is_held(world: World, chong, command):
    """A hold is the node's own; one line says who would have to run."""
    answer = chong(command, "mail")
    assert (answer.code, answer.out) == (1, "")
    assert "is chong-supervisor running on this machine?" in answer.err


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_names_are_needed(world: World, chong, command):
    """Everything is held by its own word, never by forgetting one."""
    assert chong(command).code == 2


FAILS = "(import_error): no task module defines the name any more"
FACT = {"name": "mail", "had": None, "hold": "by olga", "waiting": 3, "undefined": 0}
FREE = {"had": "by olga", "hold": None}


@pytest.mark.parametrize(
    ("command", "fact", "line"),
    [
        ("hold", {}, "held, 3 tasks waiting: by olga"),
        ("hold", {"undefined": 1}, f"held, 3 tasks waiting: by olga; 1 task will fail when released {FAILS}"),
        ("unhold", FREE, "released, 3 tasks waiting for a slot"),
        ("unhold", FREE | {"undefined": 3}, f"released, 3 tasks waiting for a slot; 3 tasks will fail now {FAILS}"),
        (
            "unhold",
            {"had": "by olga", "undefined": 2},
            f"released, but everything is held: by olga; 2 tasks will fail when that is released {FAILS}",
        ),
        ("unhold", {"hold": None}, "was not held"),
    ],
)
def test_an_answer_says_what_will_become_of_what_waits(chong, monkeypatch, command, fact, line):
    """One line, also where releasing it is the end of it."""
    monkeypatch.setattr(hold, "ask_node", lambda *_, **__: {"names": [FACT | fact]})
    assert chong(command, "mail").out == f"mail: {line}\n"
