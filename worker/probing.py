"""Trying task modules out before any of them is imported for good.

One probe takes the modules in turn, so that a set of clean ones costs one more import. Where a module takes its time
another probe goes on beside it: several that hang do not add up.
"""

import os
import select
from collections import deque
from collections.abc import Mapping, Sequence

from chong.worker.clock import monotonic
from chong.worker.leash import make_leash
from chong.worker.probe import END_SECONDS, Probe
from chong.worker.strays import end_stray, own_children, reap
from chong.worker.trial import Trial
from chong.worker.watch import complain

STALL_SECONDS = 1.0
"""Seconds after which the next module is not kept waiting any more."""
SIDE_BY_SIDE = 8
BUDGET = 2
"""All modules together have so many times the limit of one: a supervisor must know how long to wait."""
STEP = 50
"""Milliseconds between two looks at the clock."""


def try_modules(modules: Sequence[str], known: Mapping[str, Trial], limit: float) -> list[Trial]:
    """What each module's import comes to, in the order given; those that are `known` already are not tried.

    limit: seconds for one module. Afterwards nothing that was started here is left.
    """
    unknown = [module for module in modules if module not in known]
    found = dict(known) | (_Probing(unknown, limit).run() if unknown else {})
    return [found[module] for module in modules]


def end_children() -> None:
    """Kill all children of this process and what comes to us from them; what the kernel does not let go stays."""
    end = monotonic() + END_SECONDS
    while (pids := own_children()) and monotonic() < end:
        for pidfd in filter(None, map(end_stray, pids)):
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll(max(0.0, end - monotonic()) * 1000)
            os.close(pidfd)
        for pid in pids:
            reap(pid)


class _Probing:
    def __init__(self, modules: Sequence[str], limit: float) -> None:
        self._modules = modules
        self._limit = limit
        self._end = monotonic() + BUDGET * limit
        self._waiting = deque(range(len(modules)))
        self._probes: list[Probe] = []
        self._trials: dict[str, Trial] = {}
        self._supervisor = os.getppid()
        self._leash = make_leash()  # who dies over this takes the probes along

    def run(self) -> dict[str, Trial]:
        try:
            while len(self._trials) < len(self._modules):
                self._hand_out()
                self._wait()
                for probe in list(self._probes):
                    self._look(probe)
                if os.getppid() != self._supervisor:  # nothing was forked: there is nothing to hold for the next one
                    raise SystemExit("chong: the supervisor has died before the task modules were tried out")
        finally:
            for probe in self._probes:
                probe.close()
            end_children()
            os.close(self._leash)
        return self._trials

    def _hand_out(self) -> None:
        if not self._waiting:
            return
        now = monotonic()
        if now >= self._end:
            while self._waiting:
                text = f"expected its turn within {BUDGET * self._limit:g} s, others took all that time"
                self._take(Trial.failed(self._modules[self._waiting.popleft()], text))
        elif (probe := self._free_probe(now)) is not None:
            probe.ask(self._waiting.popleft())

    def _free_probe(self, now: float) -> Probe | None:
        idle = next((probe for probe in self._probes if probe.asked is None), None)
        if idle is not None or len(self._probes) == SIDE_BY_SIDE:
            return idle
        if any(now - probe.since < STALL_SECONDS for probe in self._probes):
            return None
        try:
            self._probes.append(Probe(self._modules, self._leash))
        except OSError as error:
            if not self._probes:
                raise
            complain(f"no further probe: {error}")
            return None
        return self._probes[-1]

    def _wait(self) -> None:
        poll = select.poll()
        for probe in self._probes:
            poll.register(probe.channel, select.POLLIN)
            poll.register(probe.pidfd, select.POLLIN)
        poll.poll(STEP)

    def _look(self, probe: Probe) -> None:
        if probe.asked is None:
            trial = None
            spoilt = probe.ended() is not None
        else:
            trial = probe.hear()
            if trial is None and monotonic() >= min(probe.since + self._limit, self._end):
                trial = probe.give_up(self._limit)
            spoilt = trial is not None and not trial.is_clean
        if trial is not None:
            self._take(trial)
        if spoilt:
            self._probes.remove(probe)
            probe.close()

    def _take(self, trial: Trial) -> None:
        self._trials[trial.module] = trial
        if trial.error:
            complain(f"module {trial.module}: {trial.error}\n{trial.traceback}".rstrip())
