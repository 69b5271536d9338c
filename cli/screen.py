"""Where the output goes: how wide that is, and whether it shows colours."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from chong.cli.render import UNLIMITED, Cell, Column, json_text, table


def screen_width() -> int:
    """The terminal's width, or COLUMNS; a pipe or file gets whole lines, since whoever reads them can cut."""
    return shutil.get_terminal_size((0, 0)).columns or UNLIMITED


def shows_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    print_lines(table(columns, rows, width=screen_width(), colour=shows_colour()))


def print_json(value: Any) -> None:
    print(json_text(value))


def shows_progress() -> bool:
    return sys.stderr.isatty()


def show_progress(text: str) -> None:
    """One line on a terminal that the next one replaces; nothing elsewhere."""
    if shows_progress():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """Something to know that is not part of the answer."""
    print(text, file=sys.stderr, flush=True)
