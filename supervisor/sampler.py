"""What each worker uses of the machine, sampled in a thread of its own: reading /proc takes as long as it takes."""

from collections.abc import Callable, Mapping

import psutil

from chong.store.model import Usage

EVERY_SECONDS = 5.0


class Sampler:
    """`pids` tells the workers by task id at any moment; `on_usage` gets what they use and must only hand over."""

    def __init__(
        self, *, every: float, pids: Callable[[], Mapping[str, int]], on_usage: Callable[[dict[str, Usage]], None]
    ) -> None:
        self._every = every
        self._pids = pids
        self._on_usage = on_usage
        self._most: dict[str, int] = {}

    def sample(self) -> float:
        """Look at every worker once; the seconds until the next time."""
        used: dict[str, Usage] = {}
        for task_id, pid in self._pids().items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info()
            except (psutil.Error, OSError):
                continue  # it has just ended, or there is no descriptor to look at it
            most = max(self._most.get(task_id, 0), memory.rss)
            used[task_id] = Usage(times.user + times.system, memory.rss, most)
        self._most = {task_id: usage.max_rss_bytes or 0 for task_id, usage in used.items()}
        if used:
            self._on_usage(used)
        return self._every
