"""The limit that forking sets: births, no-op tasks and reapings by the worker package's own code, and nothing else.

No store, no state machine, no second process: a loop bears workers, answers `ready` with `go`, takes their frames,
reads their exits without reaping, and reaps. Run as a program it measures one parallelism, with the logs in a folder:
`bench_fork.py PARALLEL SECONDS FOLDER`.
"""

import gc
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

from chong.worker.birth import Newborn, Nursery, bear
from chong.worker.leash import make_leash
from chong.worker.spawn import SpawnOrder
from chong.worker.wire import FRAME_LIMIT, Down, Up, decode_up, encode_down

PARALLELS = (1, 2, 4, 8)
SECONDS = 2.0
EXIT = os.WEXITED | os.WNOHANG


def best_rate() -> float:
    """No-op tasks per second at the best of several parallelisms."""
    return max(_rate_in_a_process(parallel) for parallel in PARALLELS)


def _rate_in_a_process(parallel: int) -> float:
    """In a process of its own: a fork costs more the more the forking process has in memory."""
    with tempfile.TemporaryDirectory(prefix="chong-bench-") as folder:
        command = [sys.executable, __file__, str(parallel), str(SECONDS), folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - this file
    return float(done.stdout)


class Limit:
    """The loop, with `parallel` workers at any time."""

    def __init__(self, folder: Path) -> None:
        from bench_tasks import noop  # noqa: PLC0415 - only the measuring process needs it

        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._nursery = Nursery(
            definitions={noop.name: noop},
            options={noop.name: noop.options},
            executed={},
            leash=make_leash(),
            null=null,
            open_files=files,
            runs=str(folder),
            groups=None,
        )
        self._folder = folder
        self._poll = select.epoll()
        self._by_descriptor: dict[int, Newborn] = {}
        self._born = 0
        self._results = 0

    def rate(self, parallel: int, seconds: float) -> float:
        begin = time.perf_counter()
        end = begin + seconds
        for _ in range(parallel):
            self._bear()
        while self._by_descriptor:
            for descriptor, _ in self._poll.poll():
                self._turn(descriptor, more=time.perf_counter() < end)
        spent = time.perf_counter() - begin
        if self._results != self._born:
            raise RuntimeError(f"{self._born} workers were born, {self._results} results came")
        return self._born / spent

    def _bear(self) -> None:
        self._born += 1
        run = f"bench-{self._born}.1"
        path = str(self._folder / f"{run}.log")
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        child = bear(self._nursery, SpawnOrder(run, "bench.noop", path, f"chong: worker bench.noop {run}", None), log)
        os.close(log)
        os.set_blocking(child.channel, False)
        for descriptor in (child.channel, child.pidfd):
            self._by_descriptor[descriptor] = child
            self._poll.register(descriptor, select.EPOLLIN)

    def _turn(self, descriptor: int, *, more: bool) -> None:
        child = self._by_descriptor.get(descriptor)
        if child is None:
            return  # its other descriptor ended it in this round
        if descriptor == child.channel and self._take_frames(child):
            return
        if os.waitid(os.P_PIDFD, child.pidfd, EXIT | os.WNOWAIT) is not None:
            self._end(child)
            if more:
                self._bear()

    def _take_frames(self, child: Newborn) -> bool:
        """Until nothing is left; False at the end of file."""
        while True:
            try:
                data = os.read(child.channel, FRAME_LIMIT + 1)
            except (BlockingIOError, ConnectionResetError):
                return True
            if not data:
                self._poll.modify(child.channel, 0)
                return False
            kind = decode_up(data).kind
            self._results += kind is Up.RESULT
            if kind is Up.READY:
                os.write(child.channel, self._go())

    def _go(self) -> bytes:
        task = {"id": "bench", "name": "bench.noop", "key": None, "bucket": None, "attempt": 1, "deadline": None}
        return encode_down(Down.GO, 1, 1, task=task, run_dir=str(self._folder), params={})

    def _end(self, child: Newborn) -> None:
        """As the forkserver and the supervisor do: the group's rest, the last frames, then the reaping."""
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)
        self._take_frames(child)
        os.waitid(os.P_PIDFD, child.pidfd, EXIT)
        for descriptor in (child.channel, child.pidfd):
            self._poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
            os.close(descriptor)


def main(parallel: int, seconds: float, folder: Path) -> None:
    limit = Limit(folder)
    gc.disable()
    gc.collect()
    gc.freeze()
    print(limit.rate(parallel, seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
