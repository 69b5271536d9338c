"""What workers use, and when it is told."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from waiting import wait_until

from chong.store.model import Usage
from chong.supervisor.sampler import Sampler

BUSY = "while True: input(); sum(range(3_000_000)); print('done', flush=True)"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """One that works as often as it gets a line."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


class Told:
    """What a sampler tells of `pids`, look by look."""

    def __init__(self, **pids: int) -> None:
        self.pids = pids
        self._usages: dict[str, Usage] = {}
        self._sampler = Sampler(every=5.0, pids=lambda: self.pids, on_usage=self._usages.update)

    def look(self) -> dict[str, Usage]:
        self._usages.clear()
        assert self._sampler.sample() == 5.0
        return dict(self._usages)


def work(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    assert worker.stdout.readline() == "done\n"


def test_a_worker_that_sleeps_is_told_of_once(worker):
    """Each telling is a write to the store; what it does next is told again."""
    told = Told(one=worker.pid)
    first = told.look()["one"]
    assert (first.rss_bytes or 0) > 0
    work(worker)
    wait_until(lambda: told.look() == {}, "the worker waits again")
    assert told.look() == {}
    work(worker)
    again = wait_until(told.look, "news")["one"]
    assert (again.cpu_seconds or 0) > (first.cpu_seconds or 0)
    assert (again.max_rss_bytes or 0) >= (again.rss_bytes or 0)


def test_the_next_attempt_of_a_task_is_told_of_for_itself(worker):
    """Its peak is its own, and so is what it uses at first."""
    work(worker)
    told = Told(one=worker.pid)
    told.look()
    wait_until(lambda: told.look() == {}, "the worker waits again")
    small = subprocess.Popen(["sleep", "60"])
    try:
        told.pids = {"one": small.pid}
        usage = told.look()["one"]
        assert usage.max_rss_bytes == usage.rss_bytes
    finally:
        small.kill()
        small.wait()


def test_a_worker_that_has_gone_is_no_news():
    """It has ended between the list and the look."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert Told(one=gone.pid).look() == {}
