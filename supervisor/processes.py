"""The processes of a node, from the supervisor's side: forkservers, and one channel per worker.

Turns what they send into happenings and carries effects out; decides nothing about tasks.
"""

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from chong.store.model import Failure, FailureKind, Usage
from chong.supervisor import events as e
from chong.supervisor.catalogue import Catalogue, read_catalogue
from chong.supervisor.child import Child
from chong.supervisor.containment import Containment
from chong.supervisor.forkservers import Found, next_number, start_forkserver
from chong.supervisor.frames import interpret, state_of, time_of
from chong.supervisor.generation import Generation, Message
from chong.supervisor.loop import Loop
from chong.supervisor.run_channel import KEEP, RunChannel
from chong.supervisor.settings import Settings
from chong.supervisor.verdict import ProcessEnd, usage_of
from chong.worker.kernel import used_by
from chong.worker.wire import PROTOCOL_VERSION, Order, ProtocolError, Report, Up, decode_up

RESTART_FIRST = 0.1
RESTART_MOST = 30.0
DEATH_POLL = 0.02
DESCRIPTORS_OF_A_RUN = 2


class Listener(Protocol):
    """Who is told what the processes do; called in the loop's thread."""

    def happened(self, run: str, what: e.Happening, event_id: str, at: datetime | None) -> int:
        """Something happened to a run; returns the version of its task still to be stored for it, 0 for none."""

    def kept_state(self, run: str, text: str) -> None:
        """A checkpoint carried a state, as JSON text."""

    def catalogue_ready(self, generation: int, catalogue: Catalogue) -> None:
        """A new generation can fork; its catalogue is the one that counts from now on."""

    def forkserver_not_understood(self, generation: int, error: Exception) -> None:
        """It could not be started, or said something that makes no sense; it is ended."""

    def forkserver_gone(self, generation: int, *, expected: bool, restart_in: float | None) -> None:
        """A forkserver ended."""


class Processes:
    """Forkservers and workers of one node; `begin` starts a generation for new runs."""

    def __init__(self, loop: Loop, settings: Settings, term: str, listener: Listener) -> None:
        self._loop = loop
        self._settings = settings
        self._paths = settings.paths
        self._term = term
        self._listener = listener
        self.containment = Containment()
        """Found when the term begins, and given to each new generation."""
        self._current: Generation | None = None
        self._is_ready = False
        self._failures = 0
        self._has_lost_one = False
        self._last = 0
        """The last generation's number; none is used twice in one term, also when its files are gone."""
        self._children: dict[int, Child] = {}
        self._generations: dict[int, Generation] = {}
        self._asked: dict[str, Generation] = {}
        self._channels: dict[str, RunChannel] = {}
        self._homes: dict[str, Generation] = {}
        self._orphans: set[str] = set()
        self._left: dict[str, set[int]] = {}
        """What orphans left in their cgroups, killed: they became our children, and are ours to reap."""
        self._read: set[str] = set()
        self._early_exits: dict[str, ProcessEnd] = {}
        self._abandoned: set[str] = set()
        self._ending = False

    # --- generations ---------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether a worker can be asked for."""
        return self._is_ready

    @property
    def is_empty(self) -> bool:
        return not self._generations

    def begin(self) -> None:
        """Start a forkserver for new runs."""
        number = self._last = max(next_number(self._paths), self._last + 1)
        try:
            child, generation = start_forkserver(self._paths, number, self._settings, self.containment)
        except OSError as error:
            self._listener.forkserver_not_understood(number, error)
            self._restart(number, was_ready=False)
            return
        self._children[number] = child
        self._current = generation
        self._host(generation)
        self._loop.later(self._settings.import_seconds, partial(self._check_hello, generation))

    def hold(self, found: Found) -> dict[str, Any]:
        """Take an attached forkserver's runs in; their memos by run. Nothing of a run is acted on before `read`."""
        self._host(found.generation)
        memos = {}
        for worker in found.workers:
            run = str(worker.body["run"])
            self._add_channel(run, worker, found.generation)
            memos[run] = worker.body.get("memo")
            if worker.body["exited"]:
                self._early_exits[run] = told_exit(worker)
        return memos

    def retire_old(self) -> None:
        """Let former terms' forkservers go when their runs are done: what they know was heard and stored."""
        for generation in self._generations.values():
            if generation is not self._current:
                generation.order(Order.RETIRE)

    def end(self) -> None:
        """Let every forkserver go once nothing of it is unreleased; no new one is started."""
        self._ending = True
        self._is_ready = False
        for generation in self._generations.values():
            generation.order(Order.RETIRE)

    def kill_current(self) -> None:
        """The forkserver is stuck: its workers live on without it."""
        if self._current is not None:
            self._kill(self._current)

    def close(self) -> None:
        """Let go of what is left, at once. Workers end; a forkserver without unreleased runs does too.

        One whose runs' ends are not all stored is only left alone: it keeps them for the next term, by its hold
        time at most.
        """
        self._ending = True
        keepers = {home.number for home in self._homes.values()}
        for run, channel in list(self._channels.items()):
            if not channel.has_ended:
                self.signal(run, signal.SIGKILL, group=True)
                self.signal(run, signal.SIGKILL, group=False)
            self._drop_channel(run)
        for generation in list(self._generations.values()):
            if generation.number not in keepers:
                self._kill(generation)
                self._forget_generation(generation)
            generation.close()
            generation.let_leash_go()
        for number, child in self._children.items():
            if number in keepers:
                child.let_go()
            else:
                child.end()

    def _host(self, generation: Generation) -> None:
        self._generations[generation.number] = generation
        generation.watch(self._loop, partial(self._receive, generation))

    def _receive(self, generation: Generation) -> None:
        messages: list[Message] = []
        trouble: Exception | None = None
        try:
            for message in generation.receive():
                messages.append(message)  # noqa: PERF402 - what came before a failure has to be kept
        except (EOFError, OSError, ProtocolError) as error:
            trouble = error
        # All of it first: what it said before it died or talked nonsense still counts.
        for message in messages:
            try:
                self._on_report(generation, message)
            except ProtocolError as error:
                trouble = error
        if trouble is not None:
            if not isinstance(trouble, EOFError):
                self._listener.forkserver_not_understood(generation.number, trouble)
            self._kill(generation)
            self._await_death(generation)

    def _on_report(self, generation: Generation, message: Message) -> None:
        run = str(message.body.get("run"))
        if message.op is Report.HELLO:
            self._on_hello(generation, message)
        elif message.op is Report.SPAWNED:
            self._on_spawned(generation, run, message)
        elif message.op is Report.REFUSED:
            self._asked.pop(run, None)
            reason = str(message.body.get("reason"))
            self._listener.happened(run, e.SpawnRefused(reason), f"{run}.refused", None)
        elif message.op is Report.EXITED:
            self._on_exit(run, told_exit(message))

    def _on_spawned(self, generation: Generation, run: str, message: Message) -> None:
        if len(message.descriptors) != DESCRIPTORS_OF_A_RUN:
            message.close()
            raise ProtocolError(f"expected {DESCRIPTORS_OF_A_RUN} descriptors beside spawned, got another number")
        self._asked.pop(run, None)
        if run in self._channels:
            message.close()
            return
        channel = self._add_channel(run, message, generation)
        self._listener.happened(run, e.Spawned(channel.pid), f"{run}.spawned", None)
        self.read(run)

    def _on_hello(self, generation: Generation, hello: Message) -> None:
        # A term that has lost a forkserver cannot prove by the next one that a run was never forked.
        generation.greet(hello, None if self._has_lost_one else self._term)
        if generation.protocol != PROTOCOL_VERSION:
            raise ProtocolError(f"expected protocol {PROTOCOL_VERSION} of a new forkserver, got {generation.protocol}")
        self._is_ready = generation is self._current and not self._ending
        if generation.catalogue is not None:
            self._listener.catalogue_ready(generation.number, read_catalogue(generation.catalogue))

    def _check_hello(self, generation: Generation) -> None:
        """An import that never ends must not keep the node waiting without a word."""
        if generation is self._current and not self._is_ready and not self._ending:
            self._kill(generation)

    def _kill(self, generation: Generation) -> None:
        child = self._children.get(generation.number)
        if child is not None:
            child.kill()
        else:
            generation.kill()

    def _await_death(self, generation: Generation) -> None:
        """Its workers come to us only when it is gone, and its lock is free only then."""
        child = self._children.get(generation.number)
        if not (child.has_ended() if child is not None else not generation.is_alive()):
            self._loop.later(DEATH_POLL, partial(self._await_death, generation))
            return
        self._children.pop(generation.number, None)
        if generation.number in self._generations:
            self._bury(generation)

    def _bury(self, generation: Generation) -> None:
        self._forget_generation(generation)
        was_current = generation is self._current
        self._has_lost_one = self._has_lost_one or (was_current and not self._ending)
        was_ready = self._is_ready
        if was_current:
            self._current = None
            self._is_ready = False
        for run in [run for run, home in self._asked.items() if home is generation]:
            del self._asked[run]
            self._listener.happened(run, e.ForkserverLost(), f"{run}.unforked", None)
        orphans = [run for run, home in self._homes.items() if home is generation]
        for run in orphans:
            self._orphan(run)
        if not orphans:
            generation.let_leash_go()
        if was_current and not self._ending:
            self._restart(generation.number, was_ready=was_ready)
        else:
            self._listener.forkserver_gone(generation.number, expected=True, restart_in=None)

    def _forget_generation(self, generation: Generation) -> None:
        generation.close()
        self._generations.pop(generation.number, None)
        for path in (generation.path, self._paths.catalogue(generation.number)):
            path.unlink(missing_ok=True)
        self._paths.generation_lock(generation.number).unlink(missing_ok=True)

    def _restart(self, number: int, *, was_ready: bool) -> None:
        """At once when it was killed; with a backoff when it could not even begin, as its imports then fail again."""
        self._failures = 0 if was_ready else self._failures + 1
        delay = min(RESTART_MOST, RESTART_FIRST * 2.0 ** min(self._failures, 12))
        self._listener.forkserver_gone(number, expected=False, restart_in=delay)
        self._loop.later(delay, self._begin_again)

    def _begin_again(self) -> None:
        if self._current is None and not self._ending:
            self.begin()

    # --- runs ----------------------------------------------------------------------------------------------

    def spawn(self, run: str, task: str, title: str, memo: dict[str, Any]) -> None:
        """Ask for a worker; its answer is a happening."""
        generation = self._current
        if generation is None or not self._is_ready:
            self._loop.call(partial(self._listener.happened, run, e.ForkserverLost(), f"{run}.unforked", None))
            return
        self._asked[run] = generation
        log = str(self._paths.log_of(run))
        generation.order(Order.SPAWN, run=run, task=task, log=log, title=title, memo=memo)

    def read(self, run: str) -> None:
        """Act on all frames that have come, and watch for more."""
        channel = self._channels[run]
        self._read.add(run)
        self._loop.watch(channel.fileno(), partial(self._read_frames, channel))
        self._read_frames(channel)
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

    def shut(self, run: str) -> None:
        if run in self._channels:
            self._channels[run].shut()

    def signal(self, run: str, number: int, *, group: bool) -> None:
        if run in self._channels:
            self._channels[run].signal(number, group=group)
            if number == signal.SIGKILL:
                self.containment.kill(run)

    def pop_stored(self, run: str, version: int) -> None:
        if run in self._channels:
            self._channels[run].pop_stored(version)

    def release(self, run: str) -> None:
        """The run's end is stored: its process may be reaped, and its files except the log may go."""
        home = self._homes.get(run)
        if run in self._channels and run in self._orphans:
            _reap(os.P_PIDFD, self._channels[run].pidfd)
            for pid in self._left.pop(run, ()):
                _reap(os.P_PID, pid)
            self.containment.discard(run)
        elif home is not None:
            home.order(Order.RELEASE, run=run)
        self._drop_channel(run)

    def _add_channel(self, run: str, message: Message, generation: Generation) -> RunChannel:
        channel = RunChannel(run, int(message.body["pid"]), *message.descriptors)
        self._channels[run] = channel
        self._homes[run] = generation
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
        if self._generations.get(home.number) is not home and home not in self._homes.values():
            home.let_leash_go()

    def _read_frames(self, channel: RunChannel) -> None:
        for data in channel.peek():
            channel.seen(self._on_frame(channel, data))
        channel.pop_stored(0)  # what needs no storing, such as checkpoints, makes room at once

    def _on_frame(self, channel: RunChannel, data: bytes) -> int:
        run_dir = self._paths.run_dir(channel.run)
        try:
            frame = decode_up(data)
            at = time_of(frame)
            state = state_of(frame, run_dir) if frame.kind is Up.CHECKPOINT else None
            what = interpret(frame, run_dir)
        except ProtocolError as error:
            junk = e.FailureArrived(Failure(FailureKind.PROTOCOL, "protocol", str(error)[:500]))
            self._listener.happened(channel.run, junk, f"{channel.run}.junk", None)
            return KEEP
        if frame.number <= channel.last_number:
            return 0
        channel.last_number = frame.number
        if state is not None:
            self._listener.kept_state(channel.run, state)
        version = self._listener.happened(channel.run, what, f"{channel.run}.{frame.number}", at)
        return KEEP if isinstance(what, e.ResultArrived | e.FailureArrived) else version

    def _on_exit(self, run: str, exit_: ProcessEnd) -> None:
        channel = self._channels.get(run)
        if channel is None or channel.has_ended:
            return
        if run not in self._read:
            self._early_exits[run] = exit_
            return
        channel.has_ended = True
        self._read_frames(channel)
        self._loop.forget(channel.fileno())
        self._loop.forget(channel.pidfd)
        if run in self._abandoned:
            self._abandoned.discard(run)
            self.release(run)
            return
        self._listener.happened(run, e.Exited(exit_), f"{run}.exit", exit_.at)

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
        exit_ = exit_of(channel.pidfd)
        if exit_ is None:
            return  # it lives: the loop may call once for a descriptor whose number was another's
        if exit_.is_known:  # a zombie of ours keeps the group's number from anybody else
            channel.signal(signal.SIGKILL, group=True)
        self._loop.forget(channel.pidfd)
        if left := self.containment.kill(channel.run):
            self._left.setdefault(channel.run, set()).update(left)
            self._loop.later(DEATH_POLL, partial(self._orphan_ended, channel))
            return
        self._on_exit(channel.run, replace(exit_, oom=self.containment.has_oom(channel.run)))


def told_exit(message: Message) -> ProcessEnd:
    """An end as a forkserver tells it, one of another version perhaps not when."""
    at = message.body.get("at")
    when = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else None
    usage = usage_of(message.body)
    return ProcessEnd(message.body.get("code"), message.body.get("signal"), when, usage, bool(message.body.get("oom")))


def exit_of(pidfd: int) -> ProcessEnd | None:
    """The status, left with the zombie; unknown when somebody else has reaped it, None while the process lives."""
    try:
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return ProcessEnd()
    if found is None:
        return None
    used = used_by(pidfd)
    usage = Usage(used.cpu_seconds, None, used.max_rss_bytes) if used is not None else None
    if found.si_code == os.CLD_EXITED:
        return ProcessEnd(code=found.si_status, usage=usage)
    return ProcessEnd(signal=found.si_status, usage=usage)


def _reap(kind: int, number: int) -> None:
    try:
        os.waitid(kind, number, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return  # somebody else did
