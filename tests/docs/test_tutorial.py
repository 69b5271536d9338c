"""What the tutorial shows is what the commands print."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chong.cli import buckets, taskrow, tasks, trail
from chong.cli.render import UNLIMITED, Column, table
from chong.store.view import as_json
from chong.supervisor.catalogue import Catalogue, Task
from chong.worker.definition import Definition

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text()
SUPERVISOR = "chong-supervisor --owned-buckets 0-15"


def outputs(command: str) -> list[list[str]]:
    """The lines below each call of a command."""
    found = re.findall(rf"^\$ {re.escape(command)}(?: [^\n]*)?\n(.*?)(?=^\$|^```)", PAGE, re.MULTILINE | re.DOTALL)
    return [text.splitlines() for text in found]


def defined() -> list[Definition]:
    """The tasks of the page's own package."""
    (code,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "@task" in text]
    names: dict[str, object] = {"__name__": "acme_tasks.tasks"}
    exec(compile(code, "tutorial.md", "exec"), names)
    return sorted((each for each in names.values() if isinstance(each, Definition)), key=lambda each: each.name)


@pytest.mark.parametrize(
    ("command", "columns", "titles"),
    [
        ("chong tasks", tasks.COLUMNS, 7),
        ("chong ps", taskrow.COLUMNS, 12),
        ("chong buckets", buckets.COLUMNS, 9),
        ("chong history 9a1b2385", trail.COLUMNS, 6),
    ],
)
def test_tables_have_the_columns_of_today(command: str, columns: Sequence[Column], titles: int) -> None:
    """Those that have no room may be missing, and no other stands there."""
    for head, *_ in outputs(command):
        shown = re.split(r"\s{2,}", head.strip())
        known = [column.title for column in columns if column.title]
        assert len(shown) >= titles
        assert shown == [title for title in known if title in shown]


def test_the_list_of_tasks_is_that_of_the_package() -> None:
    """Its options in the words in which they are printed."""
    (shown,) = outputs("chong tasks")
    known = {
        each.name: Task(each.name, each.module, parameters, each.options)
        for each, parameters in zip(defined(), ("(amount: float)", "(pages: int = 600)"), strict=True)
    }
    entries = Catalogue(known).entries("node1", {}, {})
    rows = [tasks._task_cells(replace(entry, options=as_json(entry.options))) for entry in entries]
    assert shown == table(tasks.COLUMNS, rows, width=UNLIMITED, colour=False)


def test_a_supervisor_says_what_it_says_at_a_start_and_at_a_takeover() -> None:
    """Its events, in their order; their names are checked against the code by the page of operating."""
    first, second = [[line.split()[3] for line in lines if "Z [" in line] for lines in outputs(SUPERVISOR)]
    assert first == ["containment", "accepting", "generation_ready"]
    assert second == ["containment", "attached", "accepting", "generation_ready"]
