"""Text for terminals."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chong.cli.render import Cell, Column, clip, escape, json_text, table, width_of
from chong.cli.times import span
from chong.supervisor.oneline import without_secret

COLUMNS = (Column("ID"), Column("NAME", floor=4), Column("N", right=True))


def test_a_table_is_aligned():
    """Numbers to the right, empty cells as "-", no blanks at the end."""
    assert table(COLUMNS, [["a", "long name", "1"], ["bb", "", "22"]], width=80, colour=False) == [
        "ID  NAME        N",
        "a   long name   1",
        "bb  -          22",
    ]


def test_a_table_gives_way_where_it_may():
    """Columns with a floor first, then the line is cut."""
    assert table(COLUMNS, [["a", "long name", "1"]], width=13, colour=False)[1] == "a   long …  1"
    assert table(COLUMNS, [["a", "long name", "1"]], width=5, colour=False)[1] == "a   …"


def test_a_table_leaves_out_what_it_can_spare():
    """The highest first, but before it what is empty in every row; only while the rest does not fit."""
    columns = (Column("ID"), Column("A", spare=1), Column("B", spare=2), Column("END", floor=4))

    def head(width, row):
        return table(columns, [row], width=width, colour=False)[0].split()

    assert head(80, ["x", "aaaa", "bbbb", "end"]) == ["ID", "A", "B", "END"]
    assert head(16, ["x", "aaaa", "bbbb", "end"]) == ["ID", "A", "END"]
    assert head(15, ["x", "", "bbbb", "end"]) == ["ID", "B", "END"]
    assert head(8, ["x", "aaaa", "bbbb", "end"]) == ["ID", "END"]


def test_colour_does_not_count_as_width():
    """The painted text is padded as it looks."""
    (_, line) = table(COLUMNS, [[Cell("a", "bad"), "x", "1"]], width=80, colour=True)
    assert line == "\x1b[31ma\x1b[0m   x     1"


@given(st.text(max_size=40))
def test_escaped_text_is_one_printable_line(text):
    """Whatever it was."""
    assert all(char.isprintable() or char == "\u3000" or char.isspace() for char in escape(text))
    assert not set(escape(text)) & set("\n\r\t\x0b\x0c\x1b\x85\u2028\u2029\u202e")


@given(st.lists(st.text(max_size=30), min_size=3, max_size=3), st.integers(1, 60))
def test_no_line_is_wider_than_the_terminal(cells, width):
    """Wide and combining characters counted."""
    assert all(width_of(line) <= width for line in table(COLUMNS, [cells], width=width, colour=False))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("ab", 0, ""),
    ],
)
def test_clip(text, width, expected):
    """A wide character is never cut in half."""
    assert clip(text, width) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59, "59s"),
        (252, "4m12s"),
        (7500, "2h05m"),
        (273600, "3d04h"),
        (-5, "0.0s"),
    ],
)
def test_span(seconds, text):
    """Two units at most."""
    assert span(timedelta(seconds=seconds)) == text


def test_json_is_inert():
    """Escapes for everything that is not ASCII."""
    assert json_text(["日\x1b\x9b"]) == '[\n  "\\u65e5\\u001b\\u009b"\n]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://u:p@ss/w@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:p@h/x", "postgresql://u:***@h/x"),
        ("host=h password=geheim user=u", "host=h password=*** user=u"),
        ("host=h PASSWORD = 'ge heim' user=u", "host=h PASSWORD = *** user=u"),
        ("https://example.org/a:b@c", "https://example.org/a:b@c"),
    ],
)
def test_secrets_are_hidden(text, expected):
    """In URLs and in key=value form."""
    assert without_secret(text) == expected
