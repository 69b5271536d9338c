"""The forkserver: tries one generation of task modules out, imports those that bear it, forks, holds and reaps.

Single-threaded, no asyncio, no socket objects that live on, nothing secret: every worker is a copy of this process.
It is told what to do by one supervisor at a time; the next is accepted once the last one's words were read to their
end. What it knows of a run it keeps until the release, so that a supervisor may die at any instant.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from chong.worker.birth import Nursery, bear
from chong.worker.catalogue import Catalogue, module_names, take_trials
from chong.worker.cgroup import discard
from chong.worker.clock import monotonic, time
from chong.worker.control import Control, Gone, accept
from chong.worker.exithandlers import run_exit_handlers
from chong.worker.foundation import Foundation
from chong.worker.held import Held
from chong.worker.leash import make_leash
from chong.worker.orphanage import STEP, Act, Orphanage, boot_time
from chong.worker.probing import end_children, try_modules
from chong.worker.remains import write_remains
from chong.worker.settings import ForkserverSettings
from chong.worker.spawn import SpawnOrder
from chong.worker.strays import Strays, end_stray
from chong.worker.watch import Watch, attempt, complain
from chong.worker.wire import PROTOCOL_VERSION, Order, ProtocolError, Report

EXIT_SECONDS = 5
"""For what task modules registered for the exit of the process that imported them."""
SERVED_LIMIT = 100
"""Terms that the hello names; so many supervisors do not die within one hold time."""
SWEEP_PERIOD = 5.0
ATTACH_SHARE = 0.3
"""The part of the hold that an accepted connection may take for its attach, before the next one is tried."""
BATCH = 64
"""Orders taken in one turn, so that exits are noticed beside a flood of them."""

Message = dict[str, Any]


class Forkserver:
    def __init__(self, settings: ForkserverSettings, foundation: Foundation, catalogue: Catalogue) -> None:
        self._settings = settings
        self._foundation = foundation
        self._leash = make_leash()
        self._nursery = Nursery(
            definitions=catalogue.definitions,
            options=catalogue.options,
            executed=catalogue.executed,
            leash=self._leash,
            null=foundation.null,
            open_files=foundation.open_files,
            runs=settings.runs,
            groups=settings.cgroup,
        )
        self._runs: dict[str, Held] = {}
        self._leaders: dict[int, Held] = {}
        self._ending: dict[str, Held] = {}  # a zombie leads, the rest of it is being ended
        self._strays = Strays(self._runs)
        self._unseen: list[Held] = []
        """Ended as it seems, with a status that cannot be read yet: a tracer may hold the zombie."""
        self._watched: dict[int, int] = {}  # strays that were killed: pid by pidfd
        self._control: Control | None = None
        self._accepted_at = 0.0
        self._swept_at = 0.0
        self._looked_at = 0.0
        self._served: list[str] = []
        self._wants_room = False
        self._retired = False
        self._orphanage = Orphanage(settings.hold, settings.ladder)
        self._watch = Watch(foundation.epoll)

    def serve(self) -> None:
        self._orphanage.enter(boot_time())
        self._watch.add(self._foundation.listener, self._accept)
        while not self._is_done():
            self._watch.turn(self._timeout())
            # Each by itself: what one of them cannot do for want of room must not keep the others from their turn.
            attempt(self._look_again)
            attempt(self._sweep_in_time)
            attempt(self._keep_orphans)

    def _is_done(self) -> bool:
        if self._runs or self._watched:
            return False
        if self._retired:
            return self._control is None or not self._control.is_waiting
        return False  # the next term has to hear what was never forked; without one the hold time ends it

    def _timeout(self) -> float:
        if self._orphanage.is_open or self._unseen:
            return STEP
        return SWEEP_PERIOD if self._runs else -1

    # The supervisor's side

    def _accept(self) -> None:
        """One at a time: until the old one was read to its end, the next waits in the backlog."""
        if (descriptor := accept(self._foundation.listener)) is None:
            return
        try:
            self._watch.add(descriptor, self._serve_control)
        except OSError:
            os.close(descriptor)  # whoever it is tries again
            raise
        self._watch.mute(self._foundation.listener)
        self._control, self._wants_room = Control(descriptor), False
        self._accepted_at = monotonic()
        self._say(
            Report.HELLO,
            lambda: (self._leash,),
            protocol=PROTOCOL_VERSION,
            generation=self._settings.generation,
            pid=os.getpid(),
            served=self._served[-SERVED_LIMIT:],
            catalogue=self._settings.catalogue,
        )

    def _serve_control(self) -> None:
        control = self._control
        if control is None:
            return
        for _ in range(BATCH):
            try:
                order = control.receive()
            except Gone:
                self._lose_control(control)
                return
            except ProtocolError as error:
                complain(str(error))
                continue
            if order is None:
                break
            self._obey(order)
        control.flush()
        self._watch_room(control)

    def _lose_control(self, control: Control) -> None:
        self._watch.drop(control.descriptor)
        os.close(control.descriptor)
        self._control = None
        self._orphanage.enter(boot_time())
        self._watch.unmute(self._foundation.listener)
        self._accept()

    def _say(self, report: Report, descriptors: Callable[[], tuple[int, ...]] = tuple, **facts: Any) -> None:
        """Without a supervisor nothing is said: the next attach lists everything."""
        if self._control is not None:
            self._control.send({"op": report, **facts}, descriptors)
            self._watch_room(self._control)

    def _watch_room(self, control: Control) -> None:
        if control.is_waiting != self._wants_room:
            self._watch.want_room(control.descriptor, wanted=control.is_waiting)
            self._wants_room = control.is_waiting

    def _obey(self, order: Message) -> None:
        match order.get("op"):
            case Order.SPAWN:
                self._spawn(order)
            case Order.RELEASE:
                self._release(order.get("run"))
            case Order.ATTACH:
                self._attach(order)
            case Order.PING:
                self._say(Report.PONG)
            case Order.RETIRE:
                self._retired = True
                self._orphanage.leave()  # a later term says so when it has taken the runs over
            case other:
                complain(f"order: expected one of {[str(known) for known in Order]}, got {other!r}"[:300])

    def _attach(self, order: Message) -> None:
        if isinstance(term := order.get("term"), str):
            self._served.append(term)
            self._orphanage.leave()
        self._orphanage.pause(boot_time())
        if self._control is not None:
            self._control.attached = True
        for held in self._runs.values():
            self._say(Report.WORKER, held.descriptors, **held.facts())
        self._say(Report.ATTACHED)

    # Runs

    def _spawn(self, order: Message) -> None:
        run = order.get("run")
        held = self._runs.get(run) if isinstance(run, str) else None
        if held is None:
            try:
                held = self._bear(order)
            except (OSError, ValueError) as error:
                self._say(Report.REFUSED, run=run, reason=str(error)[:500])
                return
        self._say(Report.SPAWNED, held.descriptors, run=held.run, pid=held.pid)
        if held.exited:
            self._report_exit(held)

    def _bear(self, order: Message) -> Held:
        if self._retired:
            raise ValueError("spawn: expected a generation that is not retired, got a retired one")
        spawn = SpawnOrder.parse(order)
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
        self._runs[held.run] = self._leaders[held.pid] = held
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
            held = self._runs.get(run)
            if held is None or not held.is_alive:
                left.add(run)
                attempt(partial(self._end_stray, pid, held))
        for run in self._ending.keys() - left:
            ended = self._ending.pop(run)
            ended.exited = True
            self._report_exit(ended)

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

    def _report_exit(self, held: Held) -> None:
        """Before the attach nothing: its list will say so."""
        if self._control is not None and self._control.attached:
            self._say(Report.EXITED, run=held.run, **held.end())

    def _release(self, run: object) -> None:
        held = self._runs.get(run) if isinstance(run, str) else None
        if held is None or not held.exited:
            complain(f"release: expected a run that has ended, got {run!r}"[:300])
            return
        del self._runs[held.run], self._leaders[held.pid]
        held.reap()

    # Time

    def _look_again(self) -> None:
        """Not at once: what cannot be read would be announced without end."""
        if self._unseen and monotonic() - self._looked_at >= STEP:
            self._looked_at = monotonic()
            unseen, self._unseen = self._unseen, []
            for held in unseen:
                self._watch.unmute(held.pidfd)

    def _sweep_in_time(self) -> None:
        if self._runs and monotonic() - self._swept_at >= SWEEP_PERIOD:
            self._sweep()

    def _keep_orphans(self) -> None:
        if not self._orphanage.is_open:
            return
        self._drop_silent()
        act = self._orphanage.next(boot_time())
        if act is Act.TERM:
            self._signal_living(signal.SIGTERM, signal.SIGCONT)
        elif act is Act.KILL:
            self._kill_living()
        if act is Act.LEAVE or (self._orphanage.on_ladder and all(held.exited for held in self._runs.values())):
            self._leave()

    def _drop_silent(self) -> None:
        """Somebody connected and never attached; who waits behind may be the supervisor."""
        late = monotonic() - self._accepted_at >= self._settings.hold * ATTACH_SHARE
        if late and self._control is not None and not self._control.attached:
            self._lose_control(self._control)

    def _signal_living(self, *numbers: signal.Signals) -> None:
        for held in self._runs.values():
            if held.is_alive:
                held.thaw()
                for number in numbers:
                    held.signal_group(number)

    def _kill_living(self) -> None:
        for held in self._runs.values():
            if held.is_alive:
                held.kill_rest()

    def _leave(self) -> NoReturn:
        """Nobody came. What cannot be written is said; the others' remains still count."""
        for held in self._runs.values():
            try:
                write_remains(self._settings.runs, held)
            except (OSError, ValueError, RecursionError) as error:
                complain(f"remains of {held.run}: {error}")
            discard(held.group)
        attempt(end_children)
        os._exit(0)


def main(argument: str) -> None:
    settings = ForkserverSettings.parse(argument)
    foundation = Foundation.lay(settings)
    trials = try_modules(module_names(settings.modules), take_trials(settings.trials), settings.import_timeout)
    catalogue = Catalogue()
    catalogue.load(trials, foundation.pristine, settings.import_timeout)
    foundation.settle()
    catalogue.write(settings.catalogue)  # under our own umask and limits, whatever the modules set
    Forkserver(settings, foundation, catalogue).serve()
    signal.alarm(EXIT_SECONDS)  # default action: a handler that hangs ends with us
    run_exit_handlers()
    end_children()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
