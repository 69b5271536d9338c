"""Named SQL, read from the .sql files beside this module: of each database a folder of them, cut by noun.

A query begins with a line `-- name: xyz` and one `--` line that says what it is for; it is named after the method that
runs it. `{xyz}` stands for the query of that name, in whichever file of the folder, or for a list of states; a name
that is not known is left for the caller to fill in.

PostgreSQL is passed a list as an array, SQLite as a JSON array. In PostgreSQL `{now}` is the store's clock, which is
the server's outside of tests. A bound for an index is (SELECT {now} - ...): without the SELECT the clock would be read
for each row, and the index be walked from end to end.
"""

import re
from collections.abc import Iterable, Iterator
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


def load_script(name: str, folder: Path = _FOLDER) -> str:
    """A whole file, such as a schema, with the lists of states filled in."""
    return _fill((folder / f"{name}.sql").read_text(encoding="utf-8"), _LISTS)


def load_queries(name: str, folder: Path = _FOLDER, **more: str) -> dict[str, str]:
    """The queries of a folder's files, or of one file, by name; `more` are further words that stand for something."""
    files = sorted((folder / name).glob("*.sql")) or [folder / f"{name}.sql"]
    queries = {title: text for file in files for title, text in _named(file.read_text(encoding="utf-8"))}
    known = queries | _LISTS | more
    for _ in range(_DEPTH):
        queries = {title: _fill(text, known | queries) for title, text in queries.items()}
    return queries


def _named(text: str) -> Iterator[tuple[str, str]]:
    _, *parts = _HEAD.split(text)
    for title, query in zip(parts[::2], parts[1::2], strict=True):
        yield title, query.strip()


def with_percent(query: str) -> str:
    """The query as psycopg wants it: `%(name)s` for `:name`."""
    return _VALUE.sub(r"%(\1)s", query.replace("%", "%%"))
