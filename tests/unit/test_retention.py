"""What a node lets go of by itself, and what it never does."""

import os
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from chong.store.errors import RightsMissing
from chong.store.memory import InMemoryTaskStore
from chong.store.specimens import START, SetClock, stored_end, stored_run, task_id
from chong.supervisor.recurring import Recurring
from chong.supervisor.retention import (
    AGAIN_SECONDS,
    BATCH,
    BATCHES,
    DAY,
    EVERY_SECONDS,
    GIBIBYTE,
    FileRetention,
    StoreRetention,
    oldest_to_keep,
)
from chong.supervisor.settings import Settings


class NoMonths(InMemoryTaskStore):
    """Its tables cannot be looked after until somebody gives the right to."""

    refused = 5

    def upkeep(self) -> None:
        if self.refused:
            self.refused -= 1
            raise RightsMissing("permission denied")


def troubles() -> dict[str, Recurring]:
    log = get_logger()
    return {
        "tables": Recurring(log, "tables_not_kept_up", "tables_kept_up"),
        "rows": Recurring(log, "store_not_pruned", "store_pruned"),
    }


class Place:
    """A node's directories with files of a certain age; `turn` lets go of what has had its time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pruned: list[dict[str, int]] = []
        self.errors: list[str] = []
        self.settings().make_directories()
        self.paths = self.settings().paths
        self.spool = SimpleNamespace(open=set(), is_open=lambda task_id: task_id in self.spool.open, prune=self._prune)
        self.until: list[tuple[float | None, float | None]] = []

    def _prune(self, kept: float | None, unreadable: float | None) -> None:
        self.until.append((kept, unreadable))

    def settings(self, **keep: float | None) -> Settings:
        return Settings(node="node-a", state_dir=self.root, **keep)

    def file(self, path: Path, *, days: float, size: int = 10) -> Path:
        path.write_bytes(b"x" * size)
        return self.aged(path, days)

    def log(self, number: int, *, days: float, size: int = 10, attempt: int = 1) -> Path:
        return self.file(self.paths.log_of(f"{task_id(number)}.{attempt}"), days=days, size=size)

    def aged(self, path: Path, days: float) -> Path:
        then = time.time() - days * DAY
        os.utime(path, (then, then))
        return path

    def turn(self, **keep: float | None) -> float:
        said = FileRetention(
            self.settings(**keep),
            self.spool,
            on_pruned=self.pruned.append,
            trouble=Recurring(get_logger(), "files_not_pruned", "files_pruned"),
        )
        with capture_logs() as lines:
            pause = said.turn()
        self.errors += [line["event"] for line in lines]
        return pause


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ({}, 10, 1),
        ({5: 4, 6: 4, 7: 4}, 12, 5),
        ({5: 4, 6: 4, 7: 4}, 11, 6),
        ({5: 4, 6: 4, 7: 4}, 8, 6),
        ({5: 4, 6: 4, 7: 4}, 3, 8),
    ],
)
def test_the_newest_minutes_are_kept(sizes, most, expected):
    """As many as fit, counted from now backwards."""
    assert oldest_to_keep(sizes, most) == expected


def test_logs_go_by_their_age(place: Place):
    """Counted from the last word that was written; how much went is told."""
    old, young = place.log(1, days=31), place.log(2, days=29)
    assert place.turn(keep_logs=30) == EVERY_SECONDS
    assert (old.exists(), young.exists()) == (False, True)
    assert place.pruned == [{"logs": 1, "bytes": 4096}]


def test_the_oldest_logs_go_while_all_take_too_much(place: Place):
    """By what they take on the disk, holes not counted, and an empty one as a block."""
    logs = [place.log(number, days=4 - number, size=200_000) for number in (1, 2, 3)]
    with logs[0].open("ab") as holed:
        holed.truncate(10_000_000)
    place.aged(logs[0], 3)
    place.turn(keep_logs=None, keep_logs_gib=450_000 / GIBIBYTE)
    assert [log.exists() for log in logs] == [False, True, True]


def test_a_log_that_cannot_be_removed_keeps_no_other(place: Place):
    """Nor the spool; it is told."""
    stuck = place.paths.log_of(f"{task_id(1)}.1")
    stuck.mkdir(parents=True)
    place.aged(stuck, 20)
    logs = [place.log(number, days=20) for number in range(2, 6)]
    spoilt = place.file(place.paths.state / "spool.db.123.unreadable", days=20)
    place.turn(keep_logs=10, keep_spool=10)
    assert ([log.exists() for log in logs], spoilt.exists(), stuck.exists()) == ([False] * 4, False, True)
    assert place.errors == ["files_not_pruned"]


def test_nothing_goes_and_nothing_is_said_while_all_is_in_bounds(place: Place):
    """No line in the log every ten minutes."""
    place.log(1, days=1)
    place.turn()
    assert (place.pruned, place.errors) == ([], [])


def test_the_log_of_an_open_task_never_goes(place: Place):
    """It proves that the task has run, without which a lost store would let it run again."""
    waiting = place.log(1, days=400)
    place.spool.open.add(task_id(1))
    place.turn(keep_logs=1, keep_logs_gib=0)
    assert waiting.exists()
    place.spool.open.clear()
    place.turn(keep_logs=1, keep_logs_gib=0)
    assert not waiting.exists()


def test_the_log_of_a_living_forkserver_never_goes(place: Place):
    """It may be silent for months."""
    first, second = (place.file(place.paths.generation_log(number), days=400) for number in (1, 2))
    place.paths.generation_lock(2).touch()
    place.turn(keep_logs=1, keep_logs_gib=0)
    assert (first.exists(), second.exists()) == (False, True)


def test_what_was_written_just_now_stays(place: Place):
    """It may belong to a forkserver that has not locked itself yet."""
    log = place.file(place.paths.generation_log(1), days=0)
    place.turn(keep_logs=1e-9, keep_logs_gib=0)
    assert log.exists()


def test_other_files_in_the_directory_are_left_alone(place: Place):
    """Whatever an operator has put there."""
    other = place.file(place.paths.logs / "notes.txt", days=400)
    place.turn(keep_logs=1, keep_logs_gib=0)
    assert other.exists()


def test_what_was_left_behind_goes(place: Place):
    """A spool that was set aside, with what belongs to it, and files of runs that are over; not those of open tasks."""
    aside = [place.file(place.paths.state / f"spool.db.123.unreadable{end}", days=31) for end in ("", "-wal")]
    young = place.file(place.paths.state / "spool.db.456.unreadable", days=1)
    used = place.file(place.paths.spool, days=31)
    place.spool.open.add(task_id(2))
    runs = []
    for number in (2, 3):
        run = place.paths.run_dir(f"{task_id(number)}.1")
        run.mkdir()
        place.file(run / "result.json", days=31)
        runs.append(place.aged(run, 31))
    now = time.time()
    place.turn(keep_spool=30, keep_submissions=7)
    assert [path.exists() for path in (*aside, young, used, *runs)] == [False, False, True, True, True, False]
    assert place.pruned == [{"spool": 3}]
    assert [now - until for until in place.until[0]] == pytest.approx([7 * DAY, 30 * DAY], abs=10)


def test_none_keeps_for_ever(place: Place):
    """Whatever is years old."""
    log = place.log(1, days=4000)
    left = place.file(place.paths.state / "spool.db.123.unreadable", days=4000)
    place.turn(keep_logs=None, keep_logs_gib=None, keep_spool=None, keep_submissions=None)
    assert place.until == [(None, None)]
    assert log.exists()
    assert left.exists()


def test_a_directory_that_is_gone_is_told(place: Place):
    """And tried again the next time; nothing ends for it."""
    place.paths.logs.rmdir()
    assert place.turn() == EVERY_SECONDS
    assert len(place.errors) == 1


class TestTasks:
    def retention(self, store, told, days=1.0):
        return StoreRetention(store, days, on_pruned=told.append, **troubles())

    def test_old_tasks_go_and_open_ones_stay(self):
        """Whatever their age."""
        clock, told = SetClock(), []
        with InMemoryTaskStore(clock) as store:
            old, run = stored_end(store, 1), stored_run(store, 2)
            clock.advance(2 * DAY)
            young = stored_end(store, 3, ended_at=clock.now - timedelta(hours=1))
            assert self.retention(store, told).turn() == EVERY_SECONDS
            assert [store.get(task.id) is None for task in (old, run, young)] == [True, False, False]
        assert told == [{"tasks": 1}]

    def test_a_turn_is_bounded_and_the_next_one_soon(self):
        """A store of millions is not emptied in one go beside the work."""
        clock, told = SetClock(), []
        with InMemoryTaskStore(clock) as store:
            for number in range(BATCH * BATCHES + 1):
                stored_end(store, number)
            clock.advance(2 * DAY)
            retention = self.retention(store, told)
            assert retention.turn() == AGAIN_SECONDS
            assert retention.turn() == EVERY_SECONDS
        assert told == [{"tasks": BATCH * BATCHES}, {"tasks": 1}]

    def test_a_store_that_is_away_is_told_and_tried_again(self):
        """Its absence ends nothing."""
        told: list = []
        store = InMemoryTaskStore()
        store.close()
        with capture_logs() as lines:
            assert self.retention(store, told).turn() == EVERY_SECONDS
        assert ([line["event"] for line in lines], told) == (["store_not_pruned"], [])

    def test_tables_that_others_have_to_look_after_are_told_once_while_rows_go(self):
        """As with a role that may not make tables, and much to prune: a turn each second."""
        with NoMonths() as store, capture_logs() as lines:
            retention = self.retention(store, [])
            for _ in range(6):
                retention.turn()
        assert [(line["event"], line["times"]) for line in lines] == [("tables_not_kept_up", 1), ("tables_kept_up", 5)]


def test_without_keep_tasks_only_traces_go():
    """Nobody's history is removed unasked, and a schedule's instants do not pile up for ever."""
    clock, told = SetClock(), []
    with InMemoryTaskStore(clock) as store:
        ended = stored_end(store, 1)
        for number in range(3):
            planned = START + timedelta(seconds=number)
            assert store.claim_firing("a", None, planned, node="node-a", event_id=f"e{number}")
        clock.advance(365 * DAY)
        StoreRetention(store, None, on_pruned=told.append, **troubles()).turn()
        assert store.get(ended.id) is not None
    assert told == [{"traces": 2}]
