"""The runs of a node, from the supervisor's side: one channel per worker, and how each of them ends.

Turns what workers and forkservers say of runs into happenings and carries effects out; decides nothing about tasks.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from chong.store.model import Failure, FailureKind
from chong.supervisor import events as e
from chong.supervisor import reports
from chong.supervisor.adopted import reap_adopted
from chong.supervisor.containment import Containment
from chong.supervisor.forkservers import Found
from chong.supervisor.frames import held_back, interpret, state_of, time_of
from chong.supervisor.generation import Generation
from chong.supervisor.generations import Generations
from chong.supervisor.listeners import Listener
from chong.supervisor.loop import Loop
from chong.supervisor.memo import memo_of
from chong.supervisor.process_end import exit_of, reap
from chong.supervisor.run_channel import KEEP, SPOOLING, RunChannel
from chong.supervisor.runlogs import RunLogs
from chong.supervisor.settings import Settings
from chong.supervisor.verdict import ProcessEnd
from chong.worker.options import Options
from chong.worker.wire import Order, ProtocolError, Up, decode_up

REAP_PERIOD = 1.0
REAP_LAST = 0.5
LEFT_POLL = 0.02
EXIT_SECONDS = 1.0
"""After the worker's end; a forkserver that has not told the exit of the run by then is asked whether it is there."""
FRAMES_A_TURN = 100
FRAMES_UNSTORED = 1000
"""More than a worker of ours can have on the way: it holds its checkpoints back."""


class Processes:
    """Every worker of the node; `generations` are the forkservers that hold them.

    awaited_elsewhere: children of this process whose exit status somebody else is to read.
    """

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        term: str,
        listener: Listener,
        *,
        awaited_elsewhere: Callable[[], set[int]],
    ) -> None:
        self._loop = loop
        self._paths = settings.paths
        self.logs = RunLogs(settings.paths)
        self._listener = listener
        self.generations = Generations(loop, settings, term, self, listener)
        self._containment = Containment()
        self._has_adopted = False
        self._awaited_elsewhere = awaited_elsewhere
        self._asked: dict[str, Generation] = {}
        self._channels: dict[str, RunChannel] = {}
        self._homes: dict[str, Generation] = {}
        self._orphans: set[str] = set()
        self._left: dict[str, set[int]] = {}
        """What orphans left in their cgroups, killed: they became our children, and are ours to reap."""
        self._read: set[str] = set()
        self._early_exits: dict[str, ProcessEnd] = {}
        self._abandoned: set[str] = set()

    def contain(self, containment: Containment) -> None:
        """What holds the runs of this term together, and of each new generation."""
        self._containment = self.generations.containment = containment

    def hold(self, found: Found) -> dict[str, Any]:
        """Take an attached forkserver's runs in; their memos by run. Nothing of a run is acted on before `read`."""
        self.generations.host(found.generation)
        memos = {}
        for worker in found.workers:
            run = worker.run
            if run in self._channels:
                reports.close_all(worker.descriptors)
                continue
            self._add_channel(worker, found.generation)
            memos[run] = worker.memo
            self.logs.begin(run, worker.options.log_max)
            if worker.end is not None:
                self._early_exits[run] = worker.end
        return memos

    def close(self) -> None:
        """Let go of what is left, at once. Workers end; a forkserver without unreleased runs does too.

        One whose runs' ends are not all stored is only left alone: it keeps them for the next term, by its hold
        time at most.
        """
        keepers = {home.number for home in self._homes.values()}
        for run, channel in list(self._channels.items()):
            if not channel.has_ended:
                self.signal(run, signal.SIGKILL, group=True)
                self.signal(run, signal.SIGKILL, group=False)
            self._drop_channel(run)
        self.generations.close(keepers)
        if self._has_adopted:
            self._reap_last()

    def let_go(self, *, and_own: bool) -> tuple[int, list[int]]:
        """Leave the runs as a SIGKILL of this process would; how many, and which forkservers hold on.

        The next term attaches to them, and hears all that nobody has stored. Without `and_own` the forkservers that
        this term has started end: they were never asked for a run.
        """
        runs = list(self._channels)
        for run in runs:
            self._drop_channel(run)
        return len(runs), self.generations.let_go(and_own=and_own)

    # --- what forkservers say of runs ----------------------------------------------------------------------------

    def reported(self, generation: Generation, told: reports.Told) -> None:
        """ProtocolError when it makes no sense."""
        match told:
            case reports.Worker() | reports.Hello():
                reports.close_all(told.descriptors)
                raise ProtocolError(f"expected what became of a run, got {type(told).__name__.lower()}")
            case reports.Spawned():
                self._on_spawned(generation, told)
            case reports.Refused(run, reason):
                self._asked.pop(run, None)
                self.logs.end(run)
                self._listener.happened(run, e.SpawnRefused(reason), f"{run}.refused", None)
            case reports.Exited(run, end):
                self._on_exit(run, end)

    def _on_spawned(self, generation: Generation, told: reports.Spawned) -> None:
        run = told.run
        self._asked.pop(run, None)
        if run in self._channels:
            reports.close_all(told.descriptors)
            return
        channel = self._add_channel(told, generation)
        self._listener.happened(run, e.Spawned(channel.pid), f"{run}.spawned", None)
        self.read(run)

    def lose_home(self, generation: Generation) -> bool:
        """The forkserver is dead; whether runs of it live on, which then need its leash."""
        for run in [run for run, home in self._asked.items() if home is generation]:
            del self._asked[run]
            self.logs.end(run)
            self._listener.happened(run, e.ForkserverLost(), f"{run}.unforked", None)
        orphans = [run for run, home in self._homes.items() if home is generation]
        for run in orphans:
            self._orphan(run)
        if not self._has_adopted:
            self._has_adopted = True
            self._reap()
        return bool(orphans)

    def _reap_last(self) -> None:
        """The leash has just been let go: what it ends has a moment for it."""
        until = time.monotonic() + REAP_LAST
        while reap_adopted(self._known_pids) and time.monotonic() < until:
            time.sleep(LEFT_POLL)

    def _known_pids(self) -> set[int]:
        return {channel.pid for channel in self._channels.values()} | self.generations.pids | self._awaited_elsewhere()

    def _reap(self) -> None:
        """Workers of whom we never heard, and strays: nobody else is there to do it, from now on."""
        reap_adopted(self._known_pids)
        self._loop.later(REAP_PERIOD, self._reap)

    # --- runs ----------------------------------------------------------------------------------------------

    def spawn(self, run: str, task: str, title: str, options: Options, *, generation: int) -> None:
        """Ask the generation that the run was claimed for, and no other, for a worker; its answer is a happening."""
        source = self.generations.source(generation)
        if source is None:
            self._loop.call(partial(self._listener.happened, run, e.ForkserverLost(), f"{run}.unforked", None))
            return
        self._asked[run] = source
        self.logs.begin(run, options.log_max)
        log = str(self._paths.log_of(run))
        source.order(Order.SPAWN, run=run, task=task, log=log, title=title, memo=memo_of(options))

    def read(self, run: str) -> None:
        """Act on all frames that have come, and watch for more."""
        channel = self._channels[run]
        self._read.add(run)
        self._loop.watch(channel.fileno(), partial(self._read_some, channel))
        if run not in self._orphans:
            self._loop.watch(channel.pidfd, partial(self._worker_ended, channel))
        self._read_some(channel)
        early = self._early_exits.pop(run, None)
        if early is not None:
            self._on_exit(run, early)

    def pid_of(self, run: str) -> int | None:
        channel = self._channels.get(run)
        return channel.pid if channel is not None else None

    def abandon(self, run: str) -> None:
        """End a run that no task speaks for any more; it is released as soon as it is gone."""
        self._abandoned.add(run)
        self.signal(run, signal.SIGKILL, group=True)
        self.read(run)

    def send(self, run: str, frame: bytes, *, wake: bool) -> bool:
        """Send a frame down, and interrupt user code to look at it; False when it cannot be sent."""
        channel = self._channels.get(run)
        if channel is None or not channel.send(frame):
            return False
        if wake:
            channel.wake()
        return True

    def kill_stuck(self, run: str, seconds: float) -> None:
        """The forkserver that was asked for this run did not answer for so long: its workers live on without it."""
        if (source := self._asked.get(run)) is not None:
            self._listener.forkserver_stuck(source.number, seconds)
            self.generations.kill(source)

    def shut(self, run: str) -> None:
        if run in self._channels:
            self._channels[run].shut()

    def signal(self, run: str, number: int, *, group: bool) -> None:
        if run in self._channels:
            self._channels[run].signal(number, group=group)
            if number == signal.SIGKILL:
                self._containment.kill(run)

    def end_group(self, run: str) -> None:
        """Whatever a run without a worker may have left in its cgroup."""
        self._containment.kill(run)
        self._containment.discard(run)

    def freeze(self, run: str) -> None:
        """Stop all processes of the run; without a cgroup those go on that it has moved to other sessions."""
        if not self._containment.freeze(run):
            self.signal(run, signal.SIGSTOP, group=True)

    def thaw(self, run: str) -> None:
        """Whichever way it was frozen."""
        self._containment.thaw(run)
        self.signal(run, signal.SIGCONT, group=True)

    def pop_stored(self, run: str, version: int) -> None:
        if run in self._channels:
            self._channels[run].pop_stored(version)

    def pop_spooled(self, run: str) -> None:
        """The oldest state of this run that was handed on as `kept_state` needs its frame no more."""
        if run in self._channels:
            self._channels[run].pop_spooled()

    def release(self, run: str) -> None:
        """The run's end is stored: its process may be reaped, and its files except the log may go."""
        home = self._homes.get(run)
        if run in self._channels and run in self._orphans:
            reap(os.P_PIDFD, self._channels[run].pidfd)
            for pid in self._left.pop(run, ()):
                reap(os.P_PID, pid)
            self._containment.discard(run)
        elif home is not None:
            home.order(Order.RELEASE, run=run)
        self._drop_channel(run)
        self.logs.end(run)

    def _add_channel(self, told: reports.Spawned, generation: Generation) -> RunChannel:
        channel = RunChannel(told.run, told.pid, told.channel, told.pidfd)
        self._channels[told.run] = channel
        self._homes[told.run] = generation
        return channel

    def _drop_channel(self, run: str) -> None:
        channel = self._channels.pop(run, None)
        if channel is None:
            return
        self._loop.forget(channel.fileno())
        self._loop.forget(channel.pidfd)
        channel.close()
        self._orphans.discard(run)
        self._read.discard(run)
        self._early_exits.pop(run, None)
        home = self._homes.pop(run)
        if home not in self.generations and home not in self._homes.values():
            home.let_leash_go()

    def _read_some(self, channel: RunChannel) -> None:
        """A worker that writes faster than it is read has to share the loop with the others."""
        if self._channels.get(channel.run) is channel and not channel.has_ended and self._read_frames(channel):
            self._loop.call(partial(self._read_some, channel))

    def _read_frames(self, channel: RunChannel) -> bool:
        """Act on a fair number of frames; whether more may have come."""
        frames = channel.peek(FRAMES_A_TURN)
        for data in frames:
            version = self._on_frame(channel, data)
            channel.seen(version)
            if version == KEEP:
                break  # a last word: whether more has come already must not decide what counts
        channel.pop_stored(0)  # what needs no storing, such as checkpoints, makes room at once
        if frames and channel.waiting > FRAMES_UNSTORED:
            self._complain(channel, f"channel: expected at most {FRAMES_UNSTORED} frames to be stored, got more")
            channel.seen(KEEP)
        return len(frames) == FRAMES_A_TURN

    def _read_to_end(self, channel: RunChannel) -> None:
        """After the exit. What lies beyond the bound is a flood's, and no last word is among it."""
        for _ in range(FRAMES_UNSTORED // FRAMES_A_TURN):
            if not self._read_frames(channel):
                return

    def _on_frame(self, channel: RunChannel, data: bytes) -> int:
        run_dir = self._paths.run_dir(channel.run)
        try:
            frame = decode_up(data)
            at = time_of(frame)
            state = state_of(frame, run_dir) if frame.kind is Up.CHECKPOINT else None
            what = interpret(frame, run_dir)
        except ProtocolError as error:
            self._complain(channel, str(error))
            return KEEP
        if frame.number <= channel.last_number:
            return 0
        channel.last_number = frame.number
        version = self._listener.happened(channel.run, what, f"{channel.run}.{frame.number}", at)
        if state is not None:
            self._listener.kept_state(channel.run, state)
            return SPOOLING
        return KEEP if isinstance(what, e.ResultArrived | e.FailureArrived) else version

    def _complain(self, channel: RunChannel, reason: str) -> None:
        junk = e.FailureArrived(Failure(FailureKind.PROTOCOL, "protocol", reason[:500]))
        self._listener.happened(channel.run, junk, f"{channel.run}.junk", None)

    def _on_exit(self, run: str, exit_: ProcessEnd) -> None:
        channel = self._channels.get(run)
        if channel is None or channel.has_ended:
            return
        if run not in self._read:
            self._early_exits[run] = exit_
            return
        channel.has_ended = True
        self._read_to_end(channel)
        if (data := held_back(self._paths.run_dir(run))) is not None:
            self._on_frame(channel, data)
        self._loop.forget(channel.fileno())
        self._loop.forget(channel.pidfd)
        if run in self._abandoned:
            self._abandoned.discard(run)
            self.release(run)
            return
        seen = [at for at in (exit_.at, channel.worker_ended_at) if at is not None]
        ended = partial(self._listener.happened, run, e.Exited(exit_), f"{run}.exit", min(seen, default=None))
        # Once the end is stored nobody reads the frames any more: what the next attempt gets has to be kept by then.
        self._listener.when_kept(run, ended)

    def _worker_ended(self, channel: RunChannel) -> None:
        """By our own look: its forkserver sees it, too, and tells the exit when nothing of the run is left."""
        if self._channels.get(channel.run) is channel and channel.sees_end():
            self._listener.happened(channel.run, e.WorkerEnded(), f"{channel.run}.ended", channel.worker_ended_at)
            self._loop.later(EXIT_SECONDS, partial(self._await_exit, channel))

    def _await_exit(self, channel: RunChannel) -> None:
        if self._channels.get(channel.run) is channel and not channel.has_ended and channel.run not in self._orphans:
            self.generations.doubts.ask(self._homes[channel.run])
            self._loop.later(EXIT_SECONDS, partial(self._await_exit, channel))

    # --- workers whose forkserver died -------------------------------------------------------------------------

    def _orphan(self, run: str) -> None:
        """The worker lives on; as its subreaper we see its end ourselves."""
        self._orphans.add(run)
        channel = self._channels[run]
        if not channel.has_ended:
            self._loop.watch(channel.pidfd, partial(self._orphan_ended, channel))

    def _orphan_ended(self, channel: RunChannel) -> None:
        if self._channels.get(channel.run) is not channel:
            return
        self._worker_ended(channel)
        exit_ = exit_of(channel.pidfd)
        if exit_ is None:
            return  # it lives: the loop may call once for a descriptor whose number was another's
        if exit_.is_known:  # a zombie of ours keeps the group's number from anybody else
            channel.signal(signal.SIGKILL, group=True)
        self._loop.forget(channel.pidfd)
        if left := self._containment.kill(channel.run):
            self._left.setdefault(channel.run, set()).update(left)
            self._loop.later(LEFT_POLL, partial(self._orphan_ended, channel))
            return
        self._on_exit(channel.run, replace(exit_, oom=self._containment.has_oom(channel.run)))
