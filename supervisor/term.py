"""One life of a supervisor: its parts, the order in which it begins, and the order in which it ends.

Begin: flock, attach to what runs (needs no store), and once the store answers: replay the outbox, adopt, judge,
accept. End: drain, stop what is left, flush, let the forkservers go; renewal is the last thing to stop.
"""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial

import structlog

from chong.store.buckets import BucketPolicy, format_buckets
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, RightsMissing, StoreUnavailable
from chong.supervisor.admission import Admission
from chong.supervisor.arrival import arrive, node_record, term_record
from chong.supervisor.containment import contain
from chong.supervisor.control import Control
from chong.supervisor.forkservers import remove_dead
from chong.supervisor.identity import check_identity, pin_identity
from chong.supervisor.inventory import Inventory
from chong.supervisor.lockfile import NodeLock
from chong.supervisor.loop import Loop
from chong.supervisor.mainthread import MainThread
from chong.supervisor.operations import Operations
from chong.supervisor.parts import Parts
from chong.supervisor.reconcile import Judge
from chong.supervisor.recover import compared, find
from chong.supervisor.recurring import Recurring
from chong.supervisor.registration import Registration
from chong.supervisor.scene import Scene
from chong.supervisor.settings import Settings
from chong.supervisor.silent import SilentForkservers
from chong.supervisor.takeover import Takeover
from chong.supervisor.ticker import Ticker

CONTACT_RETRY = 1.0
KILL_SECONDS = 8.0
"""For the ends of runs to be seen after their graces."""
FLUSH_SECONDS = 7.0
CLOSE_SECONDS = 7.0
"""For all parts of a term together; with the store's own time-out and the log's, an end takes at most half a minute
beyond drain and graces, as the pages say."""
CLOSE_RESERVE = 2.0
"""What forkservers leave of it to the others: the store has to hear that the node is down."""
LEAVE_SECONDS = 1.0
"""In place of that, for a term that leaves what runs: until the process is gone nobody else can take it over."""
DIRECTORY_SECONDS = 5.0


class Term:
    """Made by the thread that begins it; everything about tasks happens in its main loop's thread."""

    def __init__(
        self,
        settings: Settings,
        store: TaskStore,
        policy: BucketPolicy,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.name = f"{settings.node}.{uuid.uuid4().hex[:8]}"
        self.loop = Loop()
        self._settings = settings
        self._store = store
        self._log = log.bind(node=settings.node, term=self.name)
        self._waiting = Recurring(self._log, "waiting_for_store", "store_met")
        self._directories = Recurring(self._log, "directories_unusable", "directories_usable", grave=True)
        self._met: Future[None] = Future()
        self._has_met = False
        """Whether everything that runs was taken over: only then it is this term's to end."""
        self._has_pinned = False
        """Whether this is the first start in the state directory."""
        self._has_failed = False
        """Whether the start came to nothing."""
        self._is_known: Callable[[], bool] = lambda: False
        """Whether the store has this term as a living one."""
        self._is_ending = False
        self._close_by = 0.0
        """On the monotonic clock, once the parts are being closed."""
        # Frames of this attach must have higher numbers than those of any before: the boot-time clock only rises.
        self._epoch = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        self._last = ExitStack()
        self._lock: NodeLock | None = None
        admission = Admission(settings.node, self.name, self._epoch, policy, settings.owned_buckets)
        self._parts = Parts(settings, store, admission, term=self.name, loop=self.loop, log=self._log)
        self.node, self.queue, self.firings = self._parts.node, self._parts.queue, self._parts.firings
        self.tickers = self._parts.tickers
        self.thread = MainThread(self.loop, self.node.turn, self._miss, self._log)

    # --- the beginning ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Return when the store was met, or is found to be away; raises what makes a term impossible."""
        paths = self._settings.paths
        self._last.callback(self._unlock)
        self._last.callback(self._unpin)
        self._last.callback(self.loop.close)
        self._close_in_time(self._parts.spool.close)
        self._close_in_time(self._parts.courier.close)
        try:
            self._lock = NodeLock(paths.lock, self._settings.node)
            self._has_pinned = check_identity(paths.identity, self._settings.node) is None
            self._node_id = pin_identity(paths.identity, self._settings.node).node_id
            self._open_spool()
            self._parts.gatekeeper.begin()
            self._contain()
            self._last.callback(self.tickers.bounds.look)  # what ended with the node was not looked at since
            self._last.callback(self._close_processes)
            term = term_record(self._settings, self.name, node_id=self._node_id, lock_inode=self._lock.inode)
            records = term, node_record(self._settings, term, self._containment.level)
            memos, scene = arrive(self._settings, self._parts.processes, self._parts.spool, records, self._log)
            self._clear_groups(scene)
            self._takeover = Takeover(self.name, self._epoch, paths, memos)
            self._registration = Registration(self.loop, self._store, self._parts.courier, records, self._log)
            self.node.registration = self._registration
            self._is_known = lambda: self._registration.is_known
            self._last.callback(self._sign_off)  # behind the last renewal
            self._control = Control(self.loop, paths.control, self._operations().request)
            self._last.callback(self._control.close)
            self.loop.call(self._parts.processes.generations.begin)
            self.loop.call(self._look_after_directories)
            if not self._settings.only_one_task:
                self.loop.call(self.firings.look)
            self._close_in_time(self.tickers.bounding.close)
            self.tickers.bounding.start()
            self._end_silent(scene)
            self.thread.begin()
            self._parts.courier.do(partial(self._contact, scene))
            self._met.result()
        except BaseException:
            self._has_failed = True
            self._end()
            raise

    def _open_spool(self) -> None:
        self._parts.spool.open(self.name)
        if (damaged := self._parts.spool.damaged) is not None:
            self._log.error("spool_unreadable", kept=damaged, advice="what could be read of it was taken over")

    def _unpin(self) -> None:
        """A first start that fails leaves no name behind: its cure may be another one.

        Unless the store may still take this node for a living one: under another id it would be its own namesake.
        """
        if self._has_pinned and self._has_failed and not self._is_known():
            self._settings.paths.identity.unlink(missing_ok=True)

    def _contain(self) -> None:
        found = self._containment = contain(self._settings.cgroup, f"chong-{self._settings.node}-{self._node_id[:8]}")
        self._parts.processes.contain(found)
        self._last.callback(found.close)
        directory = None if found.directory is None else str(found.directory)
        self._log.info("containment", by=found.level, directory=directory, limits_memory=found.limits_memory)

    def _clear_groups(self, scene: Scene) -> None:
        """What a dead term's runs left behind their leaders; a silent forkserver's may still be somebody's."""
        if not scene.silent:
            for run in self._containment.clear(scene.attached):
                self._log.error("cgroup_not_cleared", run=run)

    def _end_silent(self, scene: Scene) -> None:
        """Before and without any contact with the store: what is stuck must not live on for want of it."""
        if scene.silent:
            settings = self._settings
            silent = SilentForkservers(
                settings.paths,
                scene.silent,
                settings.hold + settings.ladder,
                on_stuck=self._tell_stuck,
                trouble=Recurring(self._log, "forkservers_not_looked_at", "forkservers_looked_at", grave=True),
            )
            watching = Ticker("chong-silent", silent.look, on_fault=self.loop.fail)
            self._close_in_time(watching.close)
            watching.start()

    def _tell_stuck(self, number: int, seconds: float) -> None:
        self.loop.call(partial(self.node.forkserver_stuck, number, seconds))

    def _operations(self) -> Operations:
        return Operations(
            {
                "submit": self.node.intake.submit_request,
                **self._parts.inquiries.operations,
                **self._parts.group_requests.operations,
                "rerun": self._parts.reruns.request,
                "reload": self.node.reload_request,
                "hold": self._parts.gatekeeper.hold_request,
                "unhold": self._parts.gatekeeper.unhold_request,
            },
            self._log,
        )

    def _look_after_directories(self) -> None:
        """Somebody may clear them under a running node: then clients would find nobody, and no worker could start."""
        try:
            self._settings.make_directories()
            if self._control.restore():
                self._log.error("runtime_directory_lost", path=str(self._settings.paths.runtime))
        except (ConfigurationError, OSError) as error:
            self._directories.again(error)
        else:
            self._directories.end()
        self.loop.later(min(DIRECTORY_SECONDS, self._settings.renewal), self._look_after_directories)

    def _contact(self, scene: Scene) -> None:
        """In the store's thread: the term's first contact; tried until it succeeds."""
        try:
            scene = compared(self._store, scene)
            inventory = find(self._store, scene, self._registration.know)
        except RightsMissing as error:  # never given, as far as this term knows: nobody would see that it waits
            self.loop.call(partial(self._meet, ConfigurationError(str(error))))
        except StoreUnavailable as error:
            self.loop.call(partial(self._store_not_met, scene, error))
        except BaseException as error:  # noqa: BLE001 - it makes the term impossible, whatever it is
            self.loop.call(partial(self._meet, error))
        else:
            self.loop.call(partial(self._store_met, scene, inventory))

    def _store_not_met(self, scene: Scene, error: StoreUnavailable) -> None:
        self._waiting.again(error)
        self._meet(None)
        self.loop.later(CONTACT_RETRY, partial(self._parts.courier.do, partial(self._contact, scene)))

    def _store_met(self, scene: Scene, inventory: Inventory) -> None:
        if self._is_ending:
            return  # too late to take anything over
        self._waiting.end()
        self.node.adopt_buckets(inventory.num_buckets)
        self._parts.shared_holds.take(inventory.holds)
        self._parts.spool.meet_store(self.name)
        if scene.is_behind:
            self._log.error(
                "spool_behind",
                path=str(self._settings.paths.spool),
                advice="this state directory was restored or copied; what the store does not know is not run by itself",
            )
        self._parts.groups.load()
        for notice in self._parts.spool.notices():
            self._parts.failure_calls.add(notice)
        self._takeover.carry_out(inventory, self.node)
        self._parts.processes.generations.replace_old()
        self._registration.begin(inventory.declared)
        for rival in inventory.rivals:
            shared = format_buckets(rival.buckets)
            self._log.error("buckets_declared_twice", by=rival.node, buckets=shared, is_live=rival.is_live)
        self._judge_later(inventory, scene)
        self._last.callback(self._parts.hook.close)
        self._last.callback(self._parts.called_keys.close)
        self._last.callback(self._parts.failure_calls.close)
        for ticker in self.tickers.all:
            self._close_in_time(ticker.close)
            ticker.start()
        self.node.begin_accepting(inventory.unsaved)
        self._has_met = True
        self._meet(None)

    def _judge_later(self, inventory: Inventory, scene: Scene) -> None:
        self._takeover.judge_later(
            inventory,
            scene,
            Judge(self._store, self.name),
            self.node,
            every=min(1.0, self._settings.renewal),
            trouble=Recurring(self._log, "leftovers_not_judged", "leftovers_judged"),
        )

    def _meet(self, error: BaseException | None) -> None:
        """Let `begin` go on; an error that comes after it ends the main loop."""
        self._has_failed = error is not None
        if self._met.done():
            if error is not None:
                self._unpin()  # the process ends at once, and closes nothing
                raise error
        elif error is None:
            self._met.set_result(None)
        else:
            self._met.set_exception(error)

    def _miss(self, error: BaseException) -> None:
        if not self._met.done():
            self._met.set_exception(error)

    # --- the end -----------------------------------------------------------------------------------------------

    def end(self, drain_until: Callable[[], float]) -> None:
        """Drain until the monotonic second that `drain_until` says at each look, then stop what is left, and flush.

        Without a first contact what a former term has left is not stopped but left to the next one, as a fault.
        """
        try:
            if self.thread.call(self._begin_end):
                self._stop_work(drain_until)
        except BaseException as error:
            self.thread.fail(error)
            raise
        finally:
            self._end()

    def _begin_end(self) -> bool:
        """In the loop's thread: whether the term speaks for what runs."""
        self._is_ending = True
        left = [] if self._has_met else self._parts.processes.generations.attached
        if left and self.thread.fault is None:
            self.thread.fault = StoreUnavailable(
                f"told to end before it had met the store: generations {left} are left"
            )
        return self._may_end_runs

    def _stop_work(self, drain_until: Callable[[], float]) -> None:
        self._log.info("draining", seconds=round(max(0.0, drain_until() - time.monotonic()), 1))
        self.thread.call(self.node.drain)
        self.thread.wait_until(lambda: not self.queue.running, drain_until)
        self.thread.call(self.node.stop_all)
        patience = time.monotonic() + self.thread.call(self.node.longest_ladder) + KILL_SECONDS
        self.thread.wait_until(lambda: not self.queue.running, lambda: patience)
        flushed_by = time.monotonic() + FLUSH_SECONDS
        self.thread.wait_until(lambda: self.node.is_quiet and not self.firings.is_asking, lambda: flushed_by)
        self.thread.call(self.firings.end)
        if len(self._parts.outbox):
            self._log.error("unsent", writes=len(self._parts.outbox))

    def _end(self) -> None:
        """Whatever has begun ends, in the opposite order; each part gets its chance though others fail."""
        self._close_by = time.monotonic() + (CLOSE_SECONDS if self._may_end_runs else LEAVE_SECONDS)
        with self._last:
            self._last.callback(self._end_thread)
            if self._may_end_runs:
                self._last.callback(self._end_processes)

    def _close_in_time(self, close: Callable[[float], None]) -> None:
        """Close a part at the end, in what the others have left of the time for all of them."""
        self._last.callback(lambda: close(self._seconds_to_close()))

    def _seconds_to_close(self) -> float:
        return max(0.0, self._close_by - time.monotonic())

    @property
    def _may_end_runs(self) -> bool:
        return self._has_met and self.thread.fault is None

    def _end_processes(self) -> None:
        self.thread.call(self._parts.processes.generations.end)
        self.thread.wait_until(
            lambda: self._parts.processes.generations.is_empty, lambda: self._close_by - CLOSE_RESERVE
        )
        remove_dead(self._settings.paths)

    def _close_processes(self) -> None:
        """What a term has not taken over, or can no longer speak for, is the next one's: it must not end it."""
        if self._may_end_runs:
            self._parts.processes.close()
            return
        runs, generations = self._parts.processes.let_go(and_own=self._has_met)
        if generations:
            self._log.warning("runs_left", runs=runs, generations=generations)

    def _sign_off(self) -> None:
        """Unless it ends by a fault: then the next term may find work of it that goes on."""
        if self.thread.fault is None:
            self._registration.end()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _end_thread(self) -> None:
        # Whatever the others have left of the time: what is closed next is in its hands until it ends.
        self.thread.end(lambda: max(LEAVE_SECONDS, self._seconds_to_close()))
