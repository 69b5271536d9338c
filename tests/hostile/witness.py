"""What hostile code must not change: the supervisor, its promptness, its size, and the machine around it."""

import os
import threading
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Self

from metronome import Metronome
from node_bench import Supervised, children, is_alive, wait_until

LOOK = 0.05
MIB = 1024 * 1024
RSS_LIMIT = 32 * MIB
SHARED_MEMORY = Path("/dev/shm")


class Witness:
    """Looks at a node while a `with` block runs; at its end nothing may have changed.

    renewal: seconds between two renewals. A bystander's lease tells of each, by the store's own times.
    """

    def __init__(self, node: Supervised, renewal: float) -> None:
        self._node = node
        self._renewal = renewal
        self._pid = node.supervisor.pid
        self._renewed: list[datetime] = []
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.bystander = self._node.begun("hold", seconds=3600, every=0.2)
        for _ in range(20):
            self._node.end_of(self._node.submit("noop"))
        self._born = start_of(self._pid)
        self._shared = {*SHARED_MEMORY.iterdir()}
        self._files = files_of(self._pid)
        self._forkserver = self._node.forkserver()
        self._forkserver_files = files_of(self._forkserver)
        self.processes = set(self._node.processes())
        self._size = size_of(self._pid)
        self._metronome = Metronome(self._node.root)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._metronome.end()
        if kind is None:
            self._judge()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            for lease in self._node.store.leases([self.bystander]):
                moment = lease.until - lease.ttl
                if moment not in self._renewed[-1:]:
                    self._renewed.append(moment)

    @property
    def renewals(self) -> int:
        """How many were seen."""
        return len(self._renewed)

    def longest_gap(self) -> float:
        """Seconds between two renewals that came one after the other."""
        return max((later - earlier).total_seconds() for earlier, later in pairwise(self._renewed))

    @property
    def lateness(self) -> float:
        return self._metronome.lateness

    def check_supervisor(self) -> None:
        """The same process as before, which says nothing of an error."""
        assert start_of(self._pid) == self._born
        assert self._node.events("main_loop_failed") == []

    def check_processes(self) -> None:
        """No process that was not there before, but for the forkserver's successor."""
        new = {pid: title for pid, title in self._node.processes().items() if pid not in self.processes}
        new.pop(self._node.forkserver(), None)
        assert {pid: title for pid, title in new.items() if is_alive(pid)} == {}

    def _judge(self) -> None:
        self.check_supervisor()
        self.check_processes()
        if len(self._renewed) > 1:
            assert self.longest_gap() <= 2 * self._renewal + self.lateness
        forkserver = self._node.forkserver()
        wait_until(lambda: self._node.zombies_of(self._pid, forkserver) == [], "no zombies")
        leash = forkserver != self._forkserver  # the old one's is kept for as long as the bystander lives
        wait_until(lambda: files_of(self._pid) <= self._files + leash, "no more descriptors of the supervisor")
        wait_until(lambda: files_of(forkserver) <= self._forkserver_files, "no more descriptors of the forkserver")
        assert size_of(self._pid) - self._size <= RSS_LIMIT
        ours = [path for path in {*SHARED_MEMORY.iterdir()} - self._shared if path.name.startswith(("sem.", "psm_"))]
        wait_until(lambda: not any(path.exists() for path in ours), "an end of shared memory")
        wait_until(lambda: [*self._node.paths.runs.iterdir()] == [], "an end of the runs' files")
        assert len(children(forkserver)) <= 1


def start_of(pid: int) -> str:
    """When the process started; with its pid this names it for ever."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def size_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def cpu_of(pid: int) -> float:
    """Seconds of processor time."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
