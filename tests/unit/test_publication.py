"""What the store shows of a node's definitions, while it is away and after it."""

from types import SimpleNamespace

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from chong.store.errors import StoreUnavailable
from chong.store.model import CatalogueEntry
from chong.supervisor.loop import Timer
from chong.supervisor.publication import Publication


class World:
    """A test does by hand what the loop and the store's thread have to do."""

    def __init__(self):
        self.jobs, self.timers, self.written = [], [], []
        self.is_away = False
        self.shown = None
        loop = SimpleNamespace(call=lambda act: act(), later=self._later)
        self.publication = Publication(loop, self.jobs.append, lambda: self.shown, self._write, get_logger())

    def _later(self, seconds, callback):
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    def _write(self, shown):
        if self.is_away:
            raise StoreUnavailable("away")
        self.written.append([entry.name for entry in shown])

    def show(self, *names):
        self.shown = [CatalogueEntry(node="node-a", name=name, module="m") for name in names]
        self.publication.renew()

    def work(self):
        """Whatever the store's thread has to do."""
        while self.jobs:
            self.jobs.pop(0)()

    def wait(self):
        """Until all timers are over that are due."""
        due, self.timers = self.pending, []
        for timer in due:
            timer.callback()

    @property
    def pending(self):
        return [timer for timer in self.timers if not timer.cancelled]


@pytest.fixture
def world():
    return World()


def test_in_an_outage_one_try_at_most_is_to_come(world):
    """However many reloads and holds there are; it then shows what there is by then."""
    world.is_away = True
    with capture_logs() as lines:
        for number in range(10):
            world.show(f"task-{number}")
            world.work()
            assert len(world.pending) == 1
        for _ in range(3):
            world.wait()
            assert len(world.jobs) == 1
            world.work()
            assert len(world.pending) == 1
        world.is_away = False
        world.wait()
        world.work()
    assert (world.written, world.pending, world.jobs) == ([["task-9"]], [], [])
    assert [(line["event"], line["times"]) for line in lines] == [
        ("catalogue_not_published", 1),
        ("catalogue_published", 13),
    ]


def test_what_changes_while_a_slow_store_writes_is_shown_once_after_it(world):
    """One write is under way, one at most follows."""
    for number in range(10):
        world.show(f"task-{number}")
    assert len(world.jobs) == 1
    world.work()
    assert (world.written, world.pending) == ([["task-0"], ["task-9"]], [])


def test_what_changes_under_a_write_that_fails_goes_with_the_next_try(world):
    """Not beside it."""
    world.is_away = True
    world.show("old")
    world.show("new")
    world.work()
    assert (len(world.pending), world.jobs) == (1, [])
    world.is_away = False
    world.wait()
    world.work()
    assert (world.written, world.pending) == ([["new"]], [])


def test_nothing_is_shown_before_there_are_definitions(world):
    """And nothing waits for them."""
    world.publication.renew()
    assert (world.jobs, world.pending) == ([], [])
