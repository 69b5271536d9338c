"""Queries whose answer may be longer than one page."""

from collections.abc import Iterator
from dataclasses import replace

from chong.store.contract import TaskStore
from chong.store.model import TaskSnapshot
from chong.store.query import MAX_LIMIT, TaskQuery

PAGE = MAX_LIMIT


def count_tasks(store: TaskStore, query: TaskQuery) -> int:
    """How many tasks fit, read page by page; `stats` would count all that have ended, too."""
    return sum(1 for _ in all_tasks(store, query))


def all_tasks(store: TaskStore, query: TaskQuery, *, whole: bool = False) -> Iterator[TaskSnapshot]:
    """Every task that fits, newest first, read page by page; the query's own `limit` does not count.

    whole: UnreadableRow for one that cannot be read, whoever hears of such rows.
    Not one moment's picture: each page shows its tasks as they stand when it is read.
    """
    query = replace(query, limit=PAGE)
    while True:
        page = store.query(query, whole=whole)
        yield from page
        if len(page) < PAGE:
            return
        query = replace(query, before=page[-1].id)
