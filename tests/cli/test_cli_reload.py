"""`chong reload` says what is live now; beside a supervisor it is tried with whole nodes."""

import pytest

from chong.cli import reload


@pytest.mark.parametrize(("tasks", "said"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks")])
def test_a_reload_says_how_many_tasks_there_are(chong, monkeypatch: pytest.MonkeyPatch, tasks, said):
    """One is not many."""
    loaded = {"generation": 2, "tasks": tasks, "errors": {}}
    monkeypatch.setattr(reload, "ask_node", lambda *_, **__: loaded)
    assert chong("reload").out == f"generation 2 is live, with {said}\n"
