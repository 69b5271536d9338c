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
        self._last: dict[tuple[str, int], Usage] = {}

    def sample(self) -> float:
        """Look at every worker once, and tell what each uses if it is no longer the same; the seconds until next time.

        A worker that sleeps costs the store nothing.
        """
        used: dict[tuple[str, int], Usage] = {}
        for task_id, pid in self._pids().items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info()
            except (psutil.Error, OSError):
                continue  # it has just ended, or there is no descriptor to look at it
            before = self._last.get((task_id, pid))
            most = max(memory.rss, (before and before.max_rss_bytes) or 0)
            used[task_id, pid] = Usage(times.user + times.system, memory.rss, most)
        news = {key[0]: usage for key, usage in used.items() if usage != self._last.get(key)}
        self._last = used
        if news:
            self._on_usage(news)
        return self._every
