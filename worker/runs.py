"""The runs that a forkserver holds, from their fork to their release, with what they have left behind meanwhile."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial

from chong.worker.birth import Nursery, bear
from chong.worker.clock import monotonic, time
from chong.worker.held import Held
from chong.worker.orphanage import STEP, boot_time
from chong.worker.spawn import SpawnOrder
from chong.worker.strays import Strays, end_stray
from chong.worker.watch import Watch, attempt, complain

SWEEP_PERIOD = 5.0


class Runs:
    """report: called with each run that has ended, when nothing of it is left."""

    def __init__(self, nursery: Nursery, watch: Watch, report: Callable[[Held], None]) -> None:
        self._nursery = nursery
        self._watch = watch
        self._report = report
        self._held: dict[str, Held] = {}
        self._leaders: dict[int, Held] = {}
        self._ending: dict[str, Held] = {}  # a zombie leads, the rest of it is being ended
        self._strays = Strays(self._held)
        self._unseen: list[Held] = []
        """Ended as it seems, with a status that cannot be read yet: a tracer may hold the zombie."""
        self._watched: dict[int, int] = {}  # strays that were killed: pid by pidfd
        self._swept_at = 0.0
        self._looked_at = 0.0

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def get(self, run: object) -> Held | None:
        return self._held.get(run) if isinstance(run, str) else None

    @property
    def is_empty(self) -> bool:
        """Whether neither a run nor a stray is left."""
        return not self._held and not self._watched

    @property
    def patience(self) -> float:
        """Seconds until `look_again` or `sweep_in_time` has something to do; for ever below 0."""
        if self._unseen:
            return STEP
        return SWEEP_PERIOD if self._held else -1

    def bear(self, spawn: SpawnOrder) -> Held:
        """OSError when there is no room for one."""
        log = os.open(spawn.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            newborn = bear(self._nursery, spawn, log)
            identity = Held.identity_of(log)
        finally:
            os.close(log)
        held = Held(
            spawn.run,
            newborn.pid,
            newborn.pidfd,
            newborn.channel,
            spawn.memo,
            spawn.title,
            identity,
            spawn.log,
            group=newborn.group,
            born=boot_time(),
        )
        try:
            self._watch.add(held.pidfd, lambda: self._end(held))
        except OSError:
            held.close()
            raise
        self._held[held.run] = self._leaders[held.pid] = held
        return held

    def _end(self, held: Held) -> None:
        """The leader is a zombie: its status is read and kept, and the rest of its group ends."""
        status = held.read_status()
        if status is None:
            self._watch.mute(held.pidfd)
            self._unseen.append(held)
            return
        self._watch.drop(held.pidfd)
        held.status, held.ended_at = status, time()
        held.kill_rest()
        self._ending[held.run] = held
        self._sweep()

    def _sweep(self) -> None:
        """A run's end is reported once nothing of it is left. Most often one read of /proc settles it."""
        self._swept_at = monotonic()
        left: set[str] = set()
        for pid, run in self._strays.find(self._leaders).items():
            held = self._held.get(run)
            if held is None or not held.is_alive:
                left.add(run)
                attempt(partial(self._end_stray, pid, held))
        for run in self._ending.keys() - left:
            ended = self._ending.pop(run)
            ended.exited = True
            self._report(ended)

    def _end_stray(self, pid: int, held: Held | None) -> None:
        if pid in self._watched.values():
            return
        if held is not None:
            held.tell_stray(pid)
        if (pidfd := end_stray(pid)) is None:
            return
        try:
            self._watch.add(pidfd, lambda: self._stray_ended(pidfd))
        except OSError:
            os.close(pidfd)  # the next sweep finds it, or reaps it
            raise
        self._watched[pidfd] = pid

    def _stray_ended(self, pidfd: int) -> None:
        self._watch.drop(pidfd)
        del self._watched[pidfd]
        os.close(pidfd)
        self._sweep()

    def release(self, run: object) -> None:
        held = self.get(run)
        if held is None or not held.exited:
            complain(f"release: expected a run that has ended, got {run!r}"[:300])
            return
        del self._held[held.run], self._leaders[held.pid]
        held.reap()

    def look_again(self) -> None:
        """Not at once: what cannot be read would be announced without end."""
        if self._unseen and monotonic() - self._looked_at >= STEP:
            self._looked_at = monotonic()
            unseen, self._unseen = self._unseen, []
            for held in unseen:
                self._watch.unmute(held.pidfd)

    def sweep_in_time(self) -> None:
        if self._held and monotonic() - self._swept_at >= SWEEP_PERIOD:
            self._sweep()

    def signal_living(self, *numbers: signal.Signals) -> None:
        for held in self:
            if held.is_alive:
                held.thaw()
                for number in numbers:
                    held.signal_group(number)

    def kill_living(self) -> None:
        for held in self:
            if held.is_alive:
                held.kill_rest()
