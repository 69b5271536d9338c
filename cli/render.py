"""Text for terminals: tables that fit, sheets of facts, and nothing in them that could command the terminal.

Pure functions: what a terminal is like (width, colour) is passed in.
"""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chong.store.view import as_json

GAP = "  "
CUT = "…"
EMPTY = "-"
UNLIMITED = 1_000_000

_PAINT = {"good": "32", "busy": "36", "wait": "33", "bad": "31", "dim": "2", "title": "1"}


@dataclass(frozen=True, slots=True)
class Column:
    """`floor`: the narrowest width to which the column may be cut, 0 for never; `right`: aligned like numbers.

    `spare`: whether it may be left out where there is no room, 0 for never; the highest goes first.
    """

    title: str
    floor: int = 0
    right: bool = False
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: str | None = None


def escape(text: str) -> str:
    """`text` on one line: control, format and surrogate characters as escapes, so that no task can forge a screen."""
    if text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else char.encode("unicode_escape").decode() for char in text)


def _is_harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def width_of(text: str) -> int:
    """Terminal cells: East Asian wide characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, width: int) -> str:
    """The beginning of `text` that fits into `width` cells, marked when something is missing."""
    if width_of(text) <= width:
        return text
    room = width - 1
    kept = ""
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return kept + CUT if width > 0 else ""


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], *, width: int, colour: bool) -> list[str]:
    """The lines of a table, none wider than `width`; empty cells become "-"."""
    lines = [[Cell(column.title, "title") for column in columns], *([_clean(cell) for cell in row] for row in rows)]
    widths = [max(width_of(line[i].text) for line in lines) for i in range(len(columns))]
    kept = _kept(
        columns, widths, [all(line[i].text == EMPTY for line in lines[1:]) for i in range(len(columns))], width
    )
    columns, lines = [columns[i] for i in kept], [[line[i] for i in kept] for line in lines]
    widths = _fit(columns, [widths[i] for i in kept], width)
    return [_line(columns, line, widths, width, colour=colour) for line in lines]


def _kept(columns: Sequence[Column], widths: Sequence[int], is_empty: Sequence[bool], width: int) -> list[int]:
    """The columns for which there is room, if need be at their floors; of the spare ones empty ones go first."""
    kept = list(range(len(columns)))
    spare = sorted((i for i in kept if columns[i].spare), key=lambda i: (is_empty[i], columns[i].spare))
    while spare and _least(columns, widths, kept) > width:
        kept.remove(spare.pop())
    return kept


def _least(columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(min(widths[i], columns[i].floor or widths[i]) for i in kept) + len(GAP) * (len(kept) - 1)


def _clean(cell: Cell | str) -> Cell:
    if isinstance(cell, str):
        return Cell(escape(cell) or EMPTY)
    return Cell(escape(cell.text) or EMPTY, cell.style)


def _fit(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Take from whichever column is widest and may still give, one cell at a time."""
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        giving = [i for i, column in enumerate(columns) if column.floor and widths[i] > column.floor]
        if not giving:
            break
        widths[max(giving, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _line(columns: Sequence[Column], cells: Sequence[Cell], widths: Sequence[int], width: int, *, colour: bool) -> str:
    line, left = "", width
    for column, cell, wanted in zip(columns, cells, widths, strict=True):
        room = min(wanted, left)
        if room <= 0:
            break
        text = clip(cell.text, room)
        pad = " " * (room - width_of(text))
        painted = paint(text, cell.style, colour=colour)
        line += (pad + painted if column.right else painted + pad) + GAP
        left -= room + len(GAP)
    return line.rstrip()


def paint(text: str, style: str | None, *, colour: bool) -> str:
    return f"\x1b[{_PAINT[style]}m{text}\x1b[0m" if colour and style else text


def block(text: str, indent: str = "  ") -> list[str]:
    """Text of several lines, each escaped and indented."""
    return [indent + escape(line) for line in text.split("\n")]


def sheet(groups: Sequence[tuple[str, Sequence[tuple[str, str | None]]]], *, colour: bool) -> list[str]:
    """Named groups of facts; what is None is left out, and so is a group without facts."""
    lines: list[str] = []
    for title, facts in groups:
        known = [(name, value) for name, value in facts if value is not None]
        if known:
            lines += ["", paint(title, "title", colour=colour)] if lines else [paint(title, "title", colour=colour)]
            lines += [f"  {name:<16} {escape(value)}" for name, value in known]
    return lines


def json_text(value: Any) -> str:
    """JSON in plain ASCII: the same in every locale, and inert on every terminal."""
    return json.dumps(as_json(value), indent=2, ensure_ascii=True)
