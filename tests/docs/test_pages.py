"""The generated pages say what the code says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chong.cli.main import COMMANDS
from chong.store.states import MOVES, Status
from chong.supervisor.keys import KEYS

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "pages.py"


def run_tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A copy of the documentation's pages, to be changed at will."""
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, tmp_path)
    return tmp_path


def test_pages_of_the_repository_are_current() -> None:
    """`make docs` would change nothing."""
    checked = run_tool("--check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_check_names_a_changed_page(pages: Path) -> None:
    """One changed word is enough, and the page is named."""
    page = pages / "states.md"
    page.write_text(page.read_text().replace("a slot is free", "a slot was free", 1))
    checked = run_tool("--check", "--docs", pages)
    assert checked.returncode == 1
    assert f"{page} is not what the code says" in checked.stderr


def test_check_names_a_missing_page(pages: Path) -> None:
    """A page that is gone is stale, not an error of the tool."""
    (pages / "states.md").unlink()
    checked = run_tool("--check", "--docs", pages)
    assert checked.returncode == 1
    assert "states.md" in checked.stderr


def test_rendering_repairs_a_changed_page(pages: Path) -> None:
    """After a rendering the check is content."""
    (pages / "states.md").write_text("something else")
    assert run_tool("--docs", pages).returncode == 0
    assert run_tool("--check", "--docs", pages).returncode == 0


def test_page_names_every_state_and_every_reason() -> None:
    """Nothing of the table is left out."""
    text = (ROOT / "docs" / "states.md").read_text()
    assert [status for status in Status if f"`{status}`" not in text] == []
    assert [move.when for move in MOVES if move.when not in text] == []


def test_the_page_of_commands_has_every_command_and_option() -> None:
    """Of both programs, and of groups within them."""
    text = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"## chong {name}\n" not in text] == []
    assert "## chong config check\n" in text
    assert [key.option for key in KEYS.values() if key.option not in text] == []


def test_the_page_of_settings_has_every_name() -> None:
    """Whoever meets an option, a variable or a key can look it up."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    names = [word for key in KEYS.values() for word in (f"### {key.name}\n", key.option, key.variable)]
    assert [name for name in names if name not in text] == []


def test_generated_pages_are_the_same_everywhere(tmp_path: Path) -> None:
    """Neither the width of a terminal nor a home directory, a host or somebody's settings show in them."""
    odd = {"COLUMNS": "40", "LINES": "10", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "CHONG_NODE": "odd"}
    checked = subprocess.run([sys.executable, TOOL, "--check"], env={**os.environ, **odd}, check=False)
    assert checked.returncode == 0
