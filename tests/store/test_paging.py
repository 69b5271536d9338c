"""A query that is longer than one page is read to its end."""

import pytest

from chong.store import pages
from chong.store.memory import InMemoryTaskStore
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.store.specimens import stored_queued, task_id


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_every_task_comes_once_and_newest_first(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Whatever part of the last page is filled, and whatever limit the query names."""
    monkeypatch.setattr(pages, "PAGE", 2)
    with InMemoryTaskStore() as store:
        for number in range(1, count + 1):
            stored_queued(store, number)
        found = [task.id for task in all_tasks(store, TaskQuery(limit=1))]
    assert found == [task_id(number) for number in range(count, 0, -1)]


def test_conditions_hold_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """`before` among them."""
    monkeypatch.setattr(pages, "PAGE", 1)
    with InMemoryTaskStore() as store:
        for number in range(1, 7):
            stored_queued(store, number, name="odd" if number % 2 else "even")
        query = TaskQuery(names=frozenset({"odd"}), before=task_id(5))
        assert [task.id for task in all_tasks(store, query)] == [task_id(3), task_id(1)]
