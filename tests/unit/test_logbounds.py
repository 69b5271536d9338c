"""Logs that outgrow their bound: how much goes, and that neither writer nor supervisor notices."""

import errno
from collections import deque
from pathlib import Path

import pytest

from chong.supervisor.logbounds import PAGE, LogBounds, surplus

MOST = 64 * 1024


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "task.1.log"


def bounds(log: Path, told: list, **more) -> LogBounds:
    parts = {"logs": lambda: {log: MOST}, "ended": deque(), "on_trouble": lambda *what: told.append(what)}
    return LogBounds(**(parts | more))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.parametrize(
    ("size", "taken", "expected"),
    [
        (0, 0, 0),
        (MOST, MOST, 0),
        (MOST + 1, MOST + PAGE, 0),
        (MOST + PAGE, MOST + PAGE, PAGE),
        (10 * MOST + 5, 10 * MOST + PAGE, 9 * MOST),
        (10 * MOST, MOST, 0),
        (1, 10 * MOST, 0),
    ],
)
def test_whole_pages_go_and_only_what_is_too_much(size, taken, expected):
    """A log that was cut before is long, but takes no more than its bound."""
    assert surplus(size, taken, MOST) == expected


def test_the_newest_part_stays_where_it_was(log: Path):
    """Offsets do not move, so whoever reads or appends goes on undisturbed."""
    told: list = []
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    with log.open("ab", buffering=0) as writer:
        writer.write(data)
        bounds(log, told).look()
        writer.write(b"the end\n")
    assert allocated(log) <= MOST + 2 * PAGE
    left = log.read_bytes()
    assert len(left) == len(data) + 8
    gone = surplus(len(data), len(data), MOST)
    assert left == b"\0" * gone + data[gone:] + b"the end\n"
    assert told == []


def test_a_log_in_bounds_is_not_touched(log: Path):
    """Nor is one that was not made yet."""
    told: list = []
    bounds(log, told).look()
    log.write_bytes(b"x" * MOST)
    bounds(log, told, cut=pytest.fail).look()
    assert told == []


def test_a_run_that_ended_between_two_looks_is_cut_once_more(log: Path):
    """A short flood is over before anybody has looked."""
    log.write_bytes(b"x" * 10 * MOST)
    ended = deque([(log, MOST)])
    look = bounds(log, [], logs=dict, ended=ended).look
    look()
    assert allocated(log) <= MOST + PAGE
    assert not ended


def test_a_file_system_without_holes_loses_all_of_it(log: Path):
    """Rather that than a full disk; it is said once, and the writer goes on at the beginning."""
    told: list = []

    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    look = bounds(log, told, cut=refuse).look
    with log.open("ab", buffering=0) as writer:
        for _ in range(2):
            writer.write(b"x" * 2 * MOST)
            look()
        writer.write(b"the end\n")
    assert log.read_bytes() == b"the end\n"
    assert [(path, error.errno) for path, error in told] == [(log, errno.EOPNOTSUPP)]


def test_a_log_that_cannot_be_cut_keeps_no_other_from_it(log: Path, tmp_path: Path):
    """Here a link, which may lead anywhere and is not followed."""
    told: list = []
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 2 * MOST)
    link = tmp_path / "link.1.log"
    link.symlink_to(elsewhere)
    log.write_bytes(b"x" * 2 * MOST)
    bounds(log, told, logs=lambda: {link: MOST, log: MOST}).look()
    assert elsewhere.read_bytes() == b"x" * 2 * MOST
    assert allocated(log) <= MOST + PAGE
    assert [path for path, _ in told] == [link]


def test_no_descriptor_is_left_open(log: Path):
    """It looks once a second, for as long as the node lives."""
    before = descriptors()
    log.write_bytes(b"x" * 2 * MOST)
    for _ in range(3):
        bounds(log, []).look()
    assert descriptors() == before
