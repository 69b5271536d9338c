"""Troubles that come with every task, checkpoint or look: in the log once, and when they are over."""

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from chong.store.errors import StoreUnavailable
from chong.store.memory import InMemoryTaskStore
from chong.store.model import HoldList
from chong.store.specimens import NODE, TERM, node_record, task_id, term_record
from chong.supervisor.paths import Paths
from chong.supervisor.recurring import EVERY_SECONDS, Recurring
from chong.supervisor.registration import Registration
from chong.supervisor.shared_holds import SharedHolds
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.tasks import Tasks
from chong.supervisor.troubles import Troubles

LOOP = SimpleNamespace(call=lambda act: act(), later=lambda *_: None)
COURIER = SimpleNamespace(do=lambda act: act())


class Away(InMemoryTaskStore):
    """Does not answer as long as it is told not to."""

    is_away = True

    def acknowledge_holds(self, *args):
        self._answer()
        return super().acknowledge_holds(*args)

    def register_term(self, *args):
        self._answer()
        return super().register_term(*args)

    def _answer(self):
        if self.is_away:
            raise StoreUnavailable("away")


def told(lines):
    return [(line["event"], line["log_level"], line["times"]) for line in lines]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves; of those troubles that are made under it."""
    now = [0.0]
    monkeypatch.setattr(
        Recurring.__init__, "__kwdefaults__", Recurring.__init__.__kwdefaults__ | {"clock": lambda: now[0]}
    )
    return now


class Disk:
    """A spool that takes nothing of `full` tasks, or of all of them."""

    def __init__(self, *full: str, is_full: bool = False) -> None:
        self.full = full
        self.is_full = is_full

    def keep_state(self, task_id: str, text: str, then) -> None:
        is_full = self.is_full or task_id in self.full
        then(SpoolError(Path("spool.db"), sqlite3.OperationalError("disk is full")) if is_full else None)


def tasks_on(disk, tmp_path):
    return Tasks(LOOP, Paths(tmp_path, tmp_path), None, None, disk, get_logger())


def test_one_task_s_success_does_not_end_another_one_s_trouble(tmp_path, clock):
    """The disk takes the checkpoints of one of two tasks: it is over when none failed for a minute."""
    tasks = tasks_on(Disk(task_id(2)), tmp_path)
    tasks.keep_state(task_id(1), "{}")
    with capture_logs() as lines:
        for clock[0] in range(50):
            tasks.keep_state(task_id(2), "{}")
            tasks.keep_state(task_id(1), "{}")
        for clock[0] in range(50, 120):
            tasks.keep_state(task_id(1), "{}")
    assert told(lines) == [("state_not_kept", "error", 1), ("state_kept", "info", 50)]


def test_a_disk_that_takes_no_checkpoints_is_told_once(tmp_path, clock):
    """Not with each of them, of whichever task."""
    disk = Disk(is_full=True)
    tasks = tasks_on(disk, tmp_path)
    with capture_logs() as lines:
        for number in range(5):
            tasks.keep_state(task_id(number), "{}")
        disk.is_full = False
        clock[0] += EVERY_SECONDS
        tasks.keep_state(task_id(1), "{}")
    assert told(lines) == [("state_not_kept", "error", 1), ("state_kept", "info", 5)]


def test_a_disk_that_takes_no_notes_is_told_once(clock):
    """As above, for what nobody waits for."""
    troubles = Troubles(get_logger())
    with capture_logs() as lines:
        for _ in range(5):
            troubles.complain("stored_not_marked", OSError("full"))
        clock[0] += EVERY_SECONDS
        troubles.complain("stored_not_marked", None)
    assert told(lines) == [("stored_not_marked", "error", 1), ("stored_marked", "info", 5)]


@pytest.fixture
def store():
    with Away() as store:
        yield store


def test_holds_that_cannot_be_acknowledged_are_told_once(store):
    """Each poll finds them again, once a second."""
    keeper = SimpleNamespace(go_by=lambda _: None)
    options = {"node": NODE, "term": TERM, "num_buckets": lambda: 64, "on_forgotten": lambda: None, "log": get_logger()}
    holds = SharedHolds(LOOP, store, COURIER, keeper, **options)
    store.is_away = False
    store.register_term(term_record(), node_record())
    store.is_away = True
    with capture_logs() as lines:
        for _ in range(5):
            holds.take(HoldList(3, ()))
        store.is_away = False
        holds.take(HoldList(3, ()))
    assert told(lines) == [("holds_not_acknowledged", "warning", 1), ("holds_acknowledged", "info", 5)]


def test_a_node_that_cannot_be_registered_is_told_once(store):
    """It is tried again every five seconds."""
    registration = Registration(LOOP, store, COURIER, (term_record(), node_record()), get_logger())
    with capture_logs() as lines:
        for _ in range(5):
            registration.again()
        store.is_away = False
        registration.again()
    assert told(lines) == [("node_not_registered", "warning", 1), ("node_registered", "info", 5)]
