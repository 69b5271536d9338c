"""What the pages tell people to type exists."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from chong.cli.main import chong
from chong.supervisor.main import supervise

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAMS = {"chong": chong, "chong-supervisor": supervise}


def typed_lines() -> Iterator[str]:
    """The lines of the pages' consoles that call chong."""
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
            yield from re.findall(r"^\$ (?:\S*/)?(chong\S* .*?|chong)(?:; .*)?$", block, re.MULTILINE)


def unit_lines() -> Iterator[str]:
    """What the pages' systemd units start."""
    for page in PAGES:
        yield from re.findall(r"^ExecStart=\S*/(chong\S* .*)$", page.read_text(), re.MULTILINE)


def demo_lines() -> Iterator[str]:
    """The demos' commands, from their source."""
    for name in ("demo", "cluster"):
        text = (ROOT / "docs" / "examples" / f"{name}.py").read_text()
        yield from re.findall(r'f?"(chong (?:[a-z]|-)[^"]*)"', text)


@cache
def options_of(command: click.Command) -> frozenset[str]:
    return frozenset(name for param in command.params for name in param.opts)


@pytest.mark.parametrize("line", sorted({*typed_lines(), *unit_lines(), *demo_lines()}))
def test_command_and_options_exist(line: str) -> None:
    """No page names a command or an option that this version does not have."""
    program, *words = shlex.split(line)
    command: click.Command = PROGRAMS[program]
    known, rest = options_of(command), iter(words)
    while isinstance(command, click.Group):
        ctx = click.Context(command)
        name = next((word for word in rest if word in command.list_commands(ctx)), None)
        assert name is not None, "it names no command of this version"
        found = command.get_command(ctx, name)
        assert found is not None
        command, known = found, known | options_of(found)
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= known | {"--help"}


def test_pages_are_read_at_all() -> None:
    """The test above would be content with nothing to check."""
    assert len(set(typed_lines())) >= 15
    assert len(set(unit_lines())) == 1
    assert len(set(demo_lines())) >= 10
