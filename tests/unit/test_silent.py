"""Former terms' forkservers that live and do not answer, as somebody keeps an eye on them."""

import fcntl

import pytest
from no_descriptors import no_descriptors
from structlog import get_logger
from structlog.testing import capture_logs

from chong.supervisor.paths import Paths
from chong.supervisor.recurring import Recurring
from chong.supervisor.silent import LOOK, SilentForkservers


@pytest.fixture
def paths(tmp_path):
    """Of a node whose third generation holds its lock."""
    paths = Paths(tmp_path, tmp_path)
    with paths.generation_lock(3).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield paths


def test_without_a_descriptor_nobody_looks_which_is_told_once(paths):
    """And that it is over: the forkserver is still watched, and ended in its time."""
    log, stuck = get_logger(), []
    trouble = Recurring(log, "forkservers_not_looked_at", "forkservers_looked_at", grave=True)
    silent = SilentForkservers(paths, frozenset({3}), 60, on_stuck=lambda *found: stuck.append(found), trouble=trouble)
    with capture_logs() as lines:
        with no_descriptors():
            assert {silent.look() for _ in range(3)} == {LOOK}
        silent.look()
    assert [(line["event"], line["log_level"], line["times"]) for line in lines] == [
        ("forkservers_not_looked_at", "error", 1),
        ("forkservers_looked_at", "info", 3),
    ]
    assert "Too many open files" in lines[0]["error"]
    assert (paths.generation_lock(3).exists(), stuck) == (True, [])
