"""Named SQL, read from the .sql files beside this module.

A query begins with a line `-- name: xyz` and one `--` line that says what it is for. `{xyz}` stands for the query
of that name or for a list of states; a name that is not known is left for the caller to fill in.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from chong.store.states import FINAL, RUNS, WAITING, Status

_FOLDER = Path(__file__).parent / "sql"
_HEAD = re.compile(r"^-- name: (\w+)\n-- .+\n", re.MULTILINE)
_DEPTH = 3  # a query within a query within a query
_BLANK = re.compile(r"\{(\w+)\}")


def _quoted(statuses: Iterable[Status]) -> str:
    wanted = set(statuses)
    return ", ".join(f"'{status}'" for status in Status if status in wanted)


_LISTS = {
    "statuses": _quoted(Status),
    "final": _quoted(FINAL),
    "runs": _quoted(RUNS),
    "waiting": _quoted(WAITING),
}


def _fill(text: str, known: dict[str, str]) -> str:
    return _BLANK.sub(lambda blank: known.get(blank[1], blank[0]), text)


_VALUE = re.compile(r"(?<!:):(?=[a-z])(\w+)")


def load_script(name: str) -> str:
    """A whole file, such as a schema, with the lists of states filled in."""
    return _fill((_FOLDER / f"{name}.sql").read_text(encoding="utf-8"), _LISTS)


def load_queries(name: str, **more: str) -> dict[str, str]:
    """The queries of a file by name; `more` are further words that stand for something."""
    _, *parts = _HEAD.split((_FOLDER / f"{name}.sql").read_text(encoding="utf-8"))
    queries = {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}
    known = queries | _LISTS | more
    for _ in range(_DEPTH):
        queries = {title: _fill(text, known | queries) for title, text in queries.items()}
    return queries


def with_percent(query: str) -> str:
    """The query as psycopg wants it: `%(name)s` for `:name`."""
    return _VALUE.sub(r"%(\1)s", query.replace("%", "%%"))
