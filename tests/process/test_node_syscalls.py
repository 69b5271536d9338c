"""What a run costs in system calls: counted, so that its set-up and clean-up cannot creep."""

import json
import os
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from needs import unavailable
from node_bench import InProcess, S, is_alive, wait_until
from waiting import state_of

RUNS = 5
WORKER, FORKSERVER = 48, 43
"""Calls of a no-op run: from the fork to its last breath, and what the forkserver does for it. To be lowered when they
become fewer; whoever has to raise them says why. Exit handlers are user code, too: the three timers end once more."""
MARGIN = 4
"""A wait that is interrupted and begun again is a call too."""


class CounterLostError(Exception):
    """`syscalls.py` has ended; the text is what it said."""


class Watcher:
    """`syscalls.py` beside a forkserver."""

    def __init__(self, process: subprocess.Popen[bytes], forkserver: int) -> None:
        self._process = process
        self._forkserver = str(forkserver)
        assert process.stdout is not None
        self._said: IO[bytes] = process.stdout

    def counts(self) -> dict[str, Counter[str]]:
        """By process id, as soon as the forkserver has come to rest."""
        before: dict[str, dict[str, int]] = {}
        while True:
            os.kill(self._process.pid, signal.SIGUSR1)
            if not (line := self._said.readline()):
                assert self._process.stderr is not None
                raise CounterLostError(self._process.stderr.read().decode())
            now = json.loads(line)
            if now == before:
                return {pid: Counter(calls) for pid, calls in now.items()}
            before = now
            wait_until(lambda: state_of(int(self._forkserver)) == "S", "a forkserver at rest")

    def of_a_run(self, node: InProcess) -> tuple[Counter[str], Counter[str]]:
        """The calls of a worker, and of the forkserver meanwhile."""
        before = self.counts()
        task = node.run("noop")
        assert task.status is S.SUCCEEDED
        pid = node.wait_for_word(task.id)["pid"]
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the reaping")
        after = self.counts()
        return after[str(pid)], after[self._forkserver] - before.get(self._forkserver, Counter())


@contextmanager
def watched(pid: int) -> Iterator[Watcher]:
    words = [sys.executable, str(Path(__file__).with_name("syscalls.py")), str(pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"{}\n":
                unavailable(f"no process can be traced here: {process.communicate()[1].decode()[-200:]}")
            yield Watcher(process, pid)
        finally:
            process.terminate()


def counted(node: InProcess, forkserver: int) -> list[tuple[Counter[str], Counter[str]]]:
    """What some runs cost."""
    with watched(forkserver) as watcher:
        return [watcher.of_a_run(node) for _ in range(RUNS)]


def test_a_run_costs_no_more_system_calls_than_it_did(node: InProcess):
    """A close of every number, a module that is imported in each worker, a second look at /proc: it would show here."""
    for _ in range(3):
        node.run("noop")
    forkserver = node.forkserver()
    costs = counted(node, forkserver)
    worker, parent = (statistics.median(cost.total() for cost in side) for side in zip(*costs, strict=True))
    print(f"worker {worker}, forkserver {parent}", costs[0])  # noqa: T201 - shown when it fails
    assert worker <= WORKER + MARGIN
    assert parent <= FORKSERVER + MARGIN
    assert is_alive(forkserver)
    assert node.run("noop").status is S.SUCCEEDED
