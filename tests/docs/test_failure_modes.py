"""The page of failure modes names tests that exist, and leaves out none of the battery."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "failure-modes.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)::(\w+)`", PAGE)))
IN_BATTERY = re.findall(r"battery: ([^;|]+?)(?=;| \|)", PAGE)


@pytest.fixture(scope="module")
def battery() -> set[str]:
    """The names of its rows, from the table's source: to import it takes the folders of the process tests."""
    tree = ast.parse((TESTS / "hostile" / "table.py").read_text())
    found = (node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ROWS")
    rows = next(found).value
    assert isinstance(rows, ast.Dict)
    return {key.value for key in rows.keys if isinstance(key, ast.Constant)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_named_test_exists(file: str, name: str) -> None:
    """A promise that points nowhere is none."""
    functions = [node.name for node in ast.walk(ast.parse((TESTS / file).read_text())) if type(node) is ast.FunctionDef]
    assert name in functions


def test_every_row_of_the_battery_stands_on_the_page_and_no_other(battery: set[str]) -> None:
    """What hostile code costs can be looked up, whatever it does."""
    assert set(IN_BATTERY) == battery


def test_every_mode_has_its_test() -> None:
    """A row without one would be an opinion."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| what"))]
    assert len(rows) > 40
    assert [row for row in rows if "::" not in row and "battery: " not in row] == []
