"""The main loop's part of a node: what arrives from processes, store, operators and clients meets here."""

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from setproctitle import setproctitle

from chong.store.buckets import BucketPolicy, format_buckets
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, Refused, StoreUnavailable, UnreadableRow
from chong.store.model import Action, CatalogueEntry, Command, Save, TaskSnapshot
from chong.supervisor import events as e
from chong.supervisor.admission import Admission
from chong.supervisor.called_keys import Found, Wanted
from chong.supervisor.catalogue import Catalogue
from chong.supervisor.claim import claim_id
from chong.supervisor.courier import Courier
from chong.supervisor.gatekeeper import Gatekeeper
from chong.supervisor.groups import Groups
from chong.supervisor.inquiries import Inquiries
from chong.supervisor.intake import Intake
from chong.supervisor.loop import Loop
from chong.supervisor.operations import RequestSettled
from chong.supervisor.outage import Outage
from chong.supervisor.outbox import Outbox
from chong.supervisor.plans import NoKeys, plans_of
from chong.supervisor.processes import Processes
from chong.supervisor.publication import Publication
from chong.supervisor.queue import TurnQueue
from chong.supervisor.recurring import Recurring
from chong.supervisor.registration import Registration
from chong.supervisor.reloads import Reloaded, ReloadSettled
from chong.supervisor.spool import Spool
from chong.supervisor.strangers import Strangers
from chong.supervisor.submission import Submission
from chong.supervisor.task_state import TaskState, options_for
from chong.supervisor.tasks import Tasks
from chong.supervisor.told_keys import ToldKeys

DESYNCED_KEPT = 1000


class Node:
    """Accepts, dispatches, and passes on; the parts it joins do not know each other."""

    def __init__(
        self,
        *,
        loop: Loop,
        store: TaskStore,
        intake: Intake,
        spool: Spool,
        outbox: Outbox,
        queue: TurnQueue,
        tasks: Tasks,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.intake = intake
        self.tasks = tasks
        self.processes: Processes
        self.courier: Courier
        self.registration: Registration
        self.gatekeeper: Gatekeeper
        self.inquiries: Inquiries
        self.groups: Groups
        self.told_keys: ToldKeys
        self.desynced: dict[str, str] = {}
        """What was seen of the newest tasks that somebody else has written, `DESYNCED_KEPT` at most."""
        self.outage = intake.outage = Outage(self._store_away, self._store_back)
        self.loop = loop
        self._store = store
        self._spool = spool
        self._outbox = outbox
        self._queue = queue
        self._log = log
        # These belong to the store's thread.
        self._checking = Recurring(log, "lease_not_checked", "lease_checked", concerns_many=True)
        answering = Recurring(log, "command_not_answered", "command_answered", concerns_many=True)
        self._strangers = Strangers(loop, self._do_with_store, store, intake.admission.term, answering)
        self._publication = Publication(
            loop,
            self._do_with_store,
            self._shown,
            lambda shown: store.publish_catalogue(self.admission.node, shown),
            log,
        )
        self._title = ""

    @property
    def admission(self) -> Admission:
        return self.intake.admission

    # --- the beginning of a term -------------------------------------------------------------------------------

    def adopt_buckets(self, num_buckets: int) -> None:
        """The number of buckets that the deployment has recorded."""
        self.intake.admission = replace(self.admission, policy=BucketPolicy(num_buckets))

    def replayed(self, ids: list[str], refused: list[tuple[Save, Exception]]) -> None:
        """What a former term had left for the store is there, but for what came too late."""
        if ids:
            self._log.info("outbox_replayed", writes=len(ids), refused=len(refused))
        for save, error in refused:
            self._log.error("unsent_refused", task=save.snapshot.id, status=save.snapshot.status, error=str(error))
        self._outbox.know_spooled(ids)

    def take_in(self, state: TaskState, effects: list[e.Effect]) -> None:
        """A task that the store had before this term."""
        self._outbox.know_stored(state.task.id, state.task.version)
        self._spool.mark_stored(state.task.id)  # a former term may have died before it could
        self.tasks.add(state, effects)

    def drop(self, task: TaskSnapshot) -> None:
        """A task that had ended before this term."""
        self.tasks.drop_files(task)

    def complain_of_store(self, task_id: str) -> None:
        """The store does not know a task that it has had, or that may have run: it is not run behind anybody's back."""
        self._spool.mark_stored(task_id)  # a later term cannot tell any more that the spool was older than the store
        self._log.error(
            "store_went_back",
            task=task_id,
            accepted="its submission is kept in the spool, and left alone",
            advice="chong rerun runs it anew, if need be",
        )

    def complain_of_survivor(self, pid: int) -> None:
        """A process of a dead run had lived on, past the leash; it is ended."""
        self._log.error("survivor_ended", pid=pid)

    def release(self, run: str) -> None:
        """A run whose end a former term had stored."""
        self.processes.release(run)
        self._spool.drop_run(run)

    def judged_lost(self, tasks: list[TaskSnapshot]) -> None:
        """Leftovers of former terms, whose leases ran out."""
        for task in tasks:
            self._log.warning("task_lost", task=task.id, name=task.name)
            self.tasks.drop_files(task)

    def begin_accepting(self, unsaved: list[Submission]) -> None:
        """From now on runs start. First what a former term had accepted and never stored."""
        self._log.info("accepting", waiting=len(self._queue), running=self._queue.running)
        self.intake.begin(unsaved, then=self.groups.resume)
        self.inquiries.begin()

    # --- each turn of the loop -------------------------------------------------------------------------------

    def turn(self) -> None:
        """Start what may start, and send what has gathered."""
        generations = self.processes.generations
        for replaced in generations.replaced:
            if not self.tasks.has_open_start(replaced):
                generations.retire(replaced)
        if self.intake.is_accepting and not self.intake.is_ending and generations.live is not None:
            while (task_id := self._queue.take()) is not None:
                self._start(task_id, generations.live)
        self.courier.turn()
        self._spool_unsent()
        self._show_title()

    def _spool_unsent(self) -> None:
        """While the store is away, what it has not got lies on the node's disk; afterwards it goes from there."""
        if self.outage.is_on:
            self._spool.keep_unsent(self._outbox.take_unspooled(), self._outbox.put_back_unspooled)
        self._spool.drop_unsent(self._outbox.take_needless())

    def _start(self, task_id: str, generation: int) -> None:
        state, catalogue = self.tasks.get(task_id), self.intake.catalogue
        if state is None or not state.may_start or catalogue is None:
            self._queue.free(task_id)
            return
        try:
            definition = catalogue.find(state.task.name)
        except Refused as gone:
            self._queue.free(task_id)
            self.tasks.feed(task_id, e.DefinitionGone(str(gone)), f"{task_id}.undefined.{os.urandom(8).hex()}")
            return
        self.tasks.put(replace(state, options=options_for(state.task, definition.options)))
        self.tasks.feed(task_id, e.SlotFree(generation), claim_id(f"{task_id}.{state.task.attempt + 1}", generation))

    def _show_title(self) -> None:
        owned = self.admission.owned
        buckets = "all" if owned is None else format_buckets(owned)
        title = f"chong: supervisor {self.admission.node} [{buckets}] {self._queue.running} running"
        if title != self._title:
            self._title = title
            setproctitle(title)

    # --- from the processes ----------------------------------------------------------------------------------

    def happened(self, run: str, what: e.Happening, event_id: str, at: datetime | None) -> int:
        task_id, _, attempt = run.rpartition(".")
        state = self.tasks.get(task_id)
        if state is None or str(state.task.attempt) != attempt:
            return 0  # a late word of a run that is over
        after = self.tasks.feed(task_id, what, event_id, at)
        if after is None or after.desynced or after.task.version <= after.stored_version:
            return 0
        return after.task.version

    def kept_state(self, run: str, text: str) -> None:
        self.tasks.keep_state(run.rpartition(".")[0], text, partial(self.processes.pop_spooled, run))

    def when_kept(self, run: str, then: Callable[[], object]) -> None:
        """Call `then` when the states that were kept of this run's task are on the disk."""
        self._spool.when_kept(run.rpartition(".")[0], then)

    def catalogue_ready(self, generation: int, catalogue: Catalogue, *, has_new_code: bool) -> None:
        if self.intake.catalogue is None:
            self._refuse_keyless(catalogue)
        self.intake.catalogue = self.told_keys.load(catalogue)
        self._log.info("generation_ready", generation=generation, tasks=len(catalogue.tasks))
        for module, error in catalogue.errors.items():
            self._log.error("module_broken", module=module, error=error)
        for name, refusal in catalogue.refused.items():
            self._log.error("task_refused", name=name, module=refusal.module, error=refusal.error)
        if has_new_code:
            self.gatekeeper.new_code()
        self.publish()
        self.registration.show(generation)
        self.intake.admit_early()
        for state in self.tasks.all():
            self.intake.enqueue(state.task.id)

    def keys_found(self, wanted: Wanted, found: Found) -> None:
        """A function has told keys, or why there are none."""
        catalogue = self.told_keys.found(wanted, found, self.intake.catalogue)
        if catalogue is not None:
            self.intake.catalogue = catalogue
            self.publish()

    def _refuse_keyless(self, catalogue: Catalogue) -> None:
        """A node that starts says so at once; one that loads new code goes on with what it can do."""
        for name, error in plans_of(catalogue, self.admission)[1].items():
            if isinstance(error, NoKeys):
                raise ConfigurationError(f"task {name!r}: {error}")

    def forkserver_not_understood(self, generation: int, error: Exception) -> None:
        self._log.error("forkserver_not_understood", generation=generation, error=str(error))

    def forkserver_stuck(self, generation: int, seconds: float) -> None:
        self._log.error("forkserver_stuck", generation=generation, seconds=seconds)

    def forkserver_gone(self, generation: int, *, expected: bool, restart_in: float | None) -> None:
        if expected:
            self._log.info("generation_ended", generation=generation)
        else:
            self._log.error("forkserver_died", generation=generation, restart_in=restart_in)

    def reload_failed(self, generation: int, why: str) -> None:
        self._log.error("reload_failed", generation=generation, error=why, live=self.processes.generations.live)

    def reload_waits(self, alive: list[int]) -> None:
        self._log.warning("reload_waits", generations=alive)

    def publish(self) -> None:
        """Show the definitions, and which of them are held or cannot be scheduled."""
        self._publication.renew()

    def _do_with_store(self, job: Callable[[], None]) -> None:
        self.courier.do(job)

    def _shown(self) -> list[CatalogueEntry] | None:
        catalogue = self.intake.catalogue
        if catalogue is None:
            return None
        errors = {name: str(error) for name, error in plans_of(catalogue, self.admission)[1].items()}
        errors = self.told_keys.errors | errors
        return catalogue.entries(self.admission.node, self.gatekeeper.texts(catalogue.tasks), errors)

    # --- from the store --------------------------------------------------------------------------------------

    def stored(self, task_id: str, version: int) -> None:
        state = self.tasks.get(task_id)
        if state is not None and state.stored_version == 0:
            # Whoever hears that the task is stored may rely on it that this node knows so, whatever comes next.
            self._spool.mark_stored(task_id, partial(self.intake.stored, state.task))
        self.tasks.stored(task_id, version)
        self.inquiries.stored(task_id, version)

    def refused(self, task_id: str, error: Exception) -> None:
        """The store refused a write: before the first one stood, the submission is; later, a second writer exists."""
        state = self.tasks.get(task_id)
        if state is not None and state.stored_version == 0:
            self.intake.refused(state, error)
        else:
            self.desync(task_id, str(error))

    def unstorable(self, error: Refused) -> None:
        self._log.error("unstorable", error=str(error))

    def _store_away(self, error: StoreUnavailable) -> None:
        self._log.warning("store_away", error=str(error))
        self.intake.store_away()
        self.inquiries.store_away()

    def _store_back(self) -> None:
        self._log.info("store_back", waiting=len(self._outbox))

    def desync(self, task_id: str, detail: str) -> None:
        """Somebody else wrote the task: stop writing and renewing it, and end its run."""
        self._log.error("task_desynced", task=task_id, detail=detail)
        self.desynced.pop(task_id, None)  # to its end, among the newest
        self.desynced[task_id] = detail
        if len(self.desynced) > DESYNCED_KEPT:
            del self.desynced[next(iter(self.desynced))]
        self._outbox.give_up(task_id)
        self.tasks.unlease(task_id)
        self.tasks.feed(task_id, e.Desynced(detail), f"{task_id}.desynced")

    def leases_missing(self, ids: set[str]) -> None:
        """The keeper found no lease of ours: a hint, to be checked against the task itself."""
        self.courier.do(partial(self._check_missing, ids))

    def _check_missing(self, ids: set[str]) -> None:
        for task_id in sorted(ids):
            try:
                found = self._store.get(task_id)
            except StoreUnavailable:
                return  # the keeper asks again
            except UnreadableRow as fault:
                self._checking.again(fault)
                continue  # nobody knows whose it is, but that says nothing of the others
            self._checking.end()
            self.loop.call(partial(self._missing_checked, task_id, found))

    def _missing_checked(self, task_id: str, found: TaskSnapshot | None) -> None:
        state = self.tasks.get(task_id)
        if state is None or state.desynced or task_id not in self.tasks.leased_ids or self._outbox.has(task_id):
            return  # a save that is under way decides: its lost reply would look like another's write
        if found is None or (found.version > state.stored_version and found.lease_owner != state.term):
            self.desync(task_id, "the task is gone" if found is None else f"it is {found.status} by another hand")

    def register_again(self) -> None:
        """Somebody took us for gone and had us forgotten: from here on we are a new node to all others."""
        self.registration.again()
        self.publish()

    # --- from operators --------------------------------------------------------------------------------------

    def commands(self, commands: list[Command]) -> None:
        for command in commands:
            self._command(command)

    def _command(self, command: Command) -> None:
        if command.task_id in self.tasks:
            asked = e.Asked(command.action, command.issued_by, command.reason, command.id, command.issued_at)
            self.tasks.feed(command.task_id, asked, e.event_of_command(command.id))
        else:
            self._strangers.take(command)

    def reload(self, settled: ReloadSettled) -> None:
        """Load the task modules anew, in a generation for all runs from then on; runs under way keep theirs."""
        if self.intake.is_ending:
            settled(Refused("the node is going down and loads no new code"))
        else:
            self.processes.generations.reload(settled)

    def reload_request(self, _: dict[str, Any], settled: RequestSettled) -> None:
        """A reload that was asked for over the control socket."""
        self.reload(lambda outcome: settled(asdict(outcome) if isinstance(outcome, Reloaded) else outcome))

    # --- the end of a term -----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take nothing more; starts that have not reached user code go back to the queue."""
        self.intake.drain()
        for state in self.tasks.all():
            self.tasks.feed(state.task.id, e.GiveUpStart(), f"{state.task.run}.drain")

    def stop_all(self) -> None:
        """Ask every run to stop."""
        for state in self.tasks.all():
            if state.task.status.is_run and not state.is_stop_asked:
                asked = e.Asked(Action.STOP, self.admission.term, "the node is going down")
                self.tasks.feed(state.task.id, asked, f"{state.task.run}.down")

    def kill(self, task_id: str) -> None:
        """SIGKILL to a task's run; to the process itself, too, which may not lead its group yet."""
        state = self.tasks.get(task_id)
        if state is not None:
            for group in (True, False):
                self.processes.signal(state.task.run, signal.SIGKILL, group=group)

    def longest_ladder(self) -> float:
        """Seconds that stopping everything may take."""
        graces = (s.options.stop_grace + s.options.kill_grace for s in self.tasks.all() if s.has_process)
        return max(graces, default=0.0)

    @property
    def is_quiet(self) -> bool:
        """No run is left, and the store has everything."""
        return not self._queue.running and not self._outbox and not self.tasks.leased_ids
