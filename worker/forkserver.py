"""The forkserver: tries one generation of task modules out, imports those that bear it, forks, holds and reaps.

Single-threaded, no asyncio, no socket objects that live on, nothing secret: every worker is a copy of this process.
It is told what to do by one supervisor at a time; the next is accepted once the last one's words were read to their
end. What it knows of a run it keeps until the release, so that a supervisor may die at any instant.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from chong.worker.birth import Nursery
from chong.worker.catalogue import Catalogue, module_names, take_trials
from chong.worker.cgroup import discard
from chong.worker.clock import monotonic
from chong.worker.control import Control, Gone, accept
from chong.worker.exithandlers import run_exit_handlers
from chong.worker.foundation import Foundation
from chong.worker.held import Held
from chong.worker.leash import make_leash
from chong.worker.orphanage import STEP, Act, Orphanage, boot_time
from chong.worker.probing import end_children, try_modules
from chong.worker.remains import write_remains
from chong.worker.runs import Runs
from chong.worker.settings import ForkserverSettings
from chong.worker.spawn import SpawnOrder
from chong.worker.watch import Watch, attempt, complain
from chong.worker.wire import PROTOCOL_VERSION, Order, ProtocolError, Report

EXIT_SECONDS = 5
"""For what task modules registered for the exit of the process that imported them."""
SERVED_LIMIT = 100
"""Terms that the hello names; so many supervisors do not die within one hold time."""
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
        nursery = Nursery(
            definitions=catalogue.definitions,
            options=catalogue.options,
            executed=catalogue.executed,
            leash=self._leash,
            null=foundation.null,
            open_files=foundation.open_files,
            runs=settings.runs,
            groups=settings.cgroup,
        )
        self._control: Control | None = None
        self._accepted_at = 0.0
        self._served: list[str] = []
        self._wants_room = False
        self._retired = False
        self._orphanage = Orphanage(settings.hold, settings.ladder)
        self._watch = Watch(foundation.epoll)
        self._runs = Runs(nursery, self._watch, self._report_exit)

    def serve(self) -> None:
        self._orphanage.enter(boot_time())
        self._watch.add(self._foundation.listener, self._accept)
        while not self._is_done():
            self._watch.turn(self._timeout())
            # Each by itself: what one of them cannot do for want of room must not keep the others from their turn.
            attempt(self._runs.look_again)
            attempt(self._runs.sweep_in_time)
            attempt(self._keep_orphans)

    def _is_done(self) -> bool:
        if not self._runs.is_empty:
            return False
        if self._retired:
            return self._control is None or not self._control.is_waiting
        return False  # the next term has to hear what was never forked; without one the hold time ends it

    def _timeout(self) -> float:
        return STEP if self._orphanage.is_open else self._runs.patience

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
                self._runs.release(order.get("run"))
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
        for held in self._runs:
            self._say(Report.WORKER, held.descriptors, **held.facts())
        self._say(Report.ATTACHED)

    # Runs

    def _spawn(self, order: Message) -> None:
        run = order.get("run")
        held = self._runs.get(run)
        if held is None:
            try:
                if self._retired:
                    raise ValueError("spawn: expected a generation that is not retired, got a retired one")
                held = self._runs.bear(SpawnOrder.parse(order))
            except (OSError, ValueError) as error:
                self._say(Report.REFUSED, run=run, reason=str(error)[:500])
                return
        self._say(Report.SPAWNED, held.descriptors, run=held.run, pid=held.pid)
        if held.exited:
            self._report_exit(held)

    def _report_exit(self, held: Held) -> None:
        """Before the attach nothing: its list will say so."""
        if self._control is not None and self._control.attached:
            self._say(Report.EXITED, run=held.run, **held.end())

    # Time

    def _keep_orphans(self) -> None:
        if not self._orphanage.is_open:
            return
        self._drop_silent()
        act = self._orphanage.next(boot_time())
        if act is Act.TERM:
            self._runs.signal_living(signal.SIGTERM, signal.SIGCONT)
        elif act is Act.KILL:
            self._runs.kill_living()
        if act is Act.LEAVE or (self._orphanage.on_ladder and all(held.exited for held in self._runs)):
            self._leave()

    def _drop_silent(self) -> None:
        """Somebody connected and never attached; who waits behind may be the supervisor."""
        late = monotonic() - self._accepted_at >= self._settings.hold * ATTACH_SHARE
        if late and self._control is not None and not self._control.attached:
            self._lose_control(self._control)

    def _leave(self) -> NoReturn:
        """Nobody came. What cannot be written is said; the others' remains still count."""
        for held in self._runs:
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
