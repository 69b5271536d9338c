"""A node as one object: what `chong-supervisor` runs, and what tests drive.

The order of a term: flock, attach to what runs (needs no store), and once the store answers: replay the outbox,
adopt, judge, accept. Everything about tasks happens in the main loop's thread; the public methods may be called
from any other.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Any, Self, TypeVar

import structlog

from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import ChongError, ConfigurationError, Refused, StoreUnavailable
from chong.store.model import Command, LeaseGrant, NodeRecord, TaskSnapshot, TermRecord
from chong.store.query import TaskQuery
from chong.supervisor.accepted import Accepted
from chong.supervisor.admission import Admission
from chong.supervisor.client import Client
from chong.supervisor.commands import CommandPoller
from chong.supervisor.control import Control
from chong.supervisor.courier import Courier
from chong.supervisor.forkservers import attach_all, locked_generations
from chong.supervisor.identity import Identity, pin_identity
from chong.supervisor.leases import LeaseKeeper
from chong.supervisor.lockfile import NodeLock
from chong.supervisor.loop import Loop
from chong.supervisor.machine import boot_id, host_name
from chong.supervisor.node import Node
from chong.supervisor.outbox import Outbox
from chong.supervisor.processes import Processes
from chong.supervisor.queue import Limits, TurnQueue
from chong.supervisor.reconcile import Judge
from chong.supervisor.recover import Findings, Scene, find
from chong.supervisor.sampler import EVERY_SECONDS, Sampler
from chong.supervisor.settings import Settings, owned
from chong.supervisor.submission import Submission
from chong.supervisor.takeover import Takeover
from chong.supervisor.tasks import Tasks
from chong.worker.kernel import become_subreaper

CONTACT_RETRY = 1.0
CLOSE_SECONDS = 10.0
FLUSH_SECONDS = 10.0
LOOK = 0.02

T = TypeVar("T")


class Controller:
    """Owns the node from construction to `close`; a context manager.

    Takes `settings`, or their fields as keywords with `owned_buckets` as any iterable. Raises ConfigurationError
    before any thread, write or poll when an owned bucket is out of range, and before anything runs when the
    deployment has another number of buckets. The process becomes a child subreaper. While the store is out of reach
    the node waits for it: what runs goes on, nothing new starts before the first contact.
    """

    _is_closed: bool
    _closing: threading.Lock
    _node: Node
    _queue: TurnQueue
    _poller: CommandPoller
    _keeper: LeaseKeeper
    _sampler: Sampler
    _drain_until: float
    _closer: threading.Thread

    def __init__(
        self,
        *,
        store: TaskStore,
        settings: Settings | None = None,
        owned_buckets: Iterable[int] | None = None,
        log: structlog.typing.FilteringBoundLogger | None = None,
        **options: Any,
    ) -> None:
        self._settings = settings or Settings(owned_buckets=owned(owned_buckets), **options)
        self._store = store
        recorded = _recorded_buckets(store)
        self._policy = BucketPolicy(self._settings.num_buckets or recorded or DEFAULT_NUM_BUCKETS)
        if recorded not in (None, self._policy.num_buckets):
            raise ConfigurationError(
                f"number of buckets: expected {recorded} as the deployment has recorded, got {self._policy.num_buckets}"
            )
        self._owned = self._policy.check_owned(self._settings.owned_buckets)
        paths = self._settings.paths
        self._settings.make_directories()
        self._lock = NodeLock(paths.lock, self._settings.node)
        try:
            identity = pin_identity(paths.identity, self._settings.node)
            self._assemble(identity, log or structlog.get_logger("chong"))
        except BaseException:
            self._lock.close()
            raise
        self._begin()

    # --- for any thread --------------------------------------------------------------------------------------

    @property
    def term(self) -> str:
        """The name of this life of the supervisor: the lease owner of its runs."""
        return self._term

    @property
    def num_buckets(self) -> int:
        return self._node.admission.policy.num_buckets

    @property
    def owned_buckets(self) -> frozenset[int] | None:
        return self._owned

    @property
    def owns_all_buckets(self) -> bool:
        """Whether the node makes no partition: it is not limited, or owns every bucket."""
        return self._node.admission.owns_all_buckets

    def owns_bucket(self, bucket: int) -> bool:
        """Answers ownership only, not whether work without a key may be submitted."""
        return self._node.admission.owns_bucket(bucket)

    @property
    def desynced_tasks(self) -> dict[str, str]:
        """Tasks that another writer has changed, with what was seen; this term no longer writes them."""
        return dict(self._node.desynced)

    @property
    def renewals(self) -> int:
        """How often the leases were renewed so far."""
        return self._keeper.renewals

    def submit(
        self,
        name: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        unique_key: str | None = None,
        timeout: float = 30.0,
    ) -> TaskSnapshot:
        """Accept a task; returns it once it is stored.

        ConfigurationError when its bucket is not ours or it has no key in a partition; Refused when the name is
        unknown, the unique key is taken, or the node is full or draining.
        """
        submission = Submission(name=name, key=key, params=params or {}, unique_key=unique_key)
        self._node.admission.bucket_for(key)
        if self._is_closed:
            raise Refused("the node is closed and takes no new work")
        answer: Future[TaskSnapshot] = Future()
        self._loop.call(partial(self._node.submit, submission, partial(_resolve, answer)))
        return answer.result(timeout)

    def stop(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a stop; it is accepted in every state that is not final."""
        return self._client.stop(task_id, reason)

    def pause(self, task_id: str, reason: str | None = None) -> Command:
        return self._client.pause(task_id, reason)

    def resume(self, task_id: str, reason: str | None = None) -> Command:
        return self._client.resume(task_id, reason)

    def query(self, query: TaskQuery) -> list[TaskSnapshot]:
        return self._store.query(query)

    def reconcile(self, *, dry_run: bool = False) -> list[TaskSnapshot]:
        """Call runs of dead holders in our own buckets `lost`, after watching each for one lease.

        With `dry_run` the candidates, at once.
        """
        judge = Judge(self._store, self._term)
        buckets = None if self.owns_all_buckets else self._owned
        return judge.candidates(buckets) if dry_run else judge.reconcile(buckets)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a close begun by `close_in_thread` is done; False when it is not within `timeout`."""
        self._closer.join(timeout)
        return not self._closer.is_alive()

    @property
    def fault(self) -> BaseException | None:
        """What ended the main loop, when it was not `close`: the process should end, the next term takes over."""
        return self._fault

    def close_in_thread(self) -> None:
        """Begin to close, for a caller that goes on listening for signals; `wait` tells when it is done."""
        self._closer = threading.Thread(target=self.close, name="chong-close")
        self._closer.start()

    def hurry(self) -> None:
        """Shorten a drain under way: ask what still runs to stop now."""
        self._drain_until = time.monotonic()

    def close(self, drain_seconds: float | None = None) -> None:
        """End the term: drain, stop what is left, flush, let the forkservers go. Idempotent.

        Running tasks get `drain_seconds` (default: the setting) to end by themselves, then they are asked to
        stop. Renewal is the last thing to stop.
        """
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        drain = self._settings.drain_seconds if drain_seconds is None else drain_seconds
        self._drain_until = time.monotonic() + drain
        self._log.info("draining", seconds=drain)
        self._call(self._node.drain)
        self._wait_until(lambda: not self._queue.running, lambda: self._drain_until)
        self._call(self._node.stop_all)
        patience = time.monotonic() + self._call(self._node.longest_ladder) + FLUSH_SECONDS
        self._wait_until(lambda: not self._queue.running, lambda: patience)
        self._poller.close(CLOSE_SECONDS)
        flush_until = time.monotonic() + FLUSH_SECONDS
        self._wait_until(lambda: self._node.is_quiet, lambda: flush_until)
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the beginning of a term -----------------------------------------------------------------------------

    def _assemble(self, identity: Identity, log: structlog.typing.FilteringBoundLogger) -> None:
        settings, paths = self._settings, self._settings.paths
        become_subreaper()
        self._term = f"{settings.node}.{uuid.uuid4().hex[:8]}"
        self._log = log.bind(node=settings.node, term=self._term)
        self._identity = identity
        self._closing = threading.Lock()
        self._is_closed = False
        self._fault: BaseException | None = None
        self._drain_until = 0.0
        self._met: Future[None] = Future()
        # Frames of this attach must have higher numbers than those of any before: the boot-time clock only rises.
        self._epoch = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        self._ttl = timedelta(seconds=settings.lease_seconds)
        self._loop = Loop()
        self._outbox = Outbox(LeaseGrant(self._term, self._ttl))
        self._queue = TurnQueue(Limits(settings.max_parallel, settings.max_parallel_per_bucket))
        self._accepted = Accepted(paths.accepted)
        self._tasks = Tasks(self._loop, paths, self._outbox, self._queue, self._accepted, self._log)
        self._node = Node(
            loop=self._loop,
            store=self._store,
            admission=Admission(settings.node, self._term, self._epoch, self._policy, self._owned),
            accepted=self._accepted,
            outbox=self._outbox,
            queue=self._queue,
            tasks=self._tasks,
            log=self._log,
        )
        self._processes = Processes(self._loop, settings, self._term, self._node)
        self._courier = Courier(self._loop, self._store, self._term, self._outbox, self._node)
        self._tasks.processes = self._node.processes = self._processes
        self._node.courier = self._courier
        self._client = Client(self._store, issued_by=self._term)
        self._keeper = LeaseKeeper(
            self._store,
            self._term,
            ttl=settings.lease_seconds,
            every=settings.renewal,
            ids=lambda: self._tasks.leased_ids,
            loop_turned_at=lambda: self._loop.turned_at,
            on_missing=lambda ids: self._loop.call(partial(self._node.leases_missing, ids)),
            on_error=lambda error: self._loop.call(partial(self._log.warning, "renewal_failed", error=str(error))),
        )
        self._poller = CommandPoller(
            self._store,
            settings.node,
            self._term,
            every=settings.poll_seconds,
            on_commands=lambda commands: self._loop.call(partial(self._node.commands, commands)),
            on_error=lambda error: self._loop.call(partial(self._log.warning, "poll_failed", error=str(error))),
        )
        self._sampler = Sampler(
            every=min(EVERY_SECONDS, settings.renewal),
            pids=self._tasks.worker_pids,
            on_usage=lambda usages: self._loop.call(partial(self._tasks.used, usages)),
        )
        self._thread = threading.Thread(target=self._run, name="chong-main", daemon=True)

    def _begin(self) -> None:
        """Attach, start the loop, and wait until the store was met or is found to be away."""
        memos, scene = self._attach()
        self._takeover = Takeover(self._term, self._epoch, self._settings.paths, memos)
        self._control = Control(self._loop, self._settings.paths.control, self._node.request)
        self._loop.call(self._processes.begin)
        self._thread.start()
        self._courier.do(partial(self._contact, scene))
        try:
            self._met.result()
        except BaseException:
            self._is_closed = True
            self._end()
            raise

    def _attach(self) -> tuple[dict[str, Any], Scene]:
        settings, paths = self._settings, self._settings.paths
        found = attach_all(paths, partial(self._log.warning, "forkserver_silent"))
        memos: dict[str, Any] = {}
        for each in found:
            memos |= self._processes.hold(each)
            self._log.info("attached", generation=each.generation.number, runs=len(each.workers))
        living = locked_generations(paths)
        answered = {each.generation.number for each in found}
        submissions, spoilt = self._accepted.replay()
        for path in spoilt:
            self._log.error("accepted_file_unreadable", path=str(path))
        return memos, Scene(
            term=self._term_record(),
            node=self._node_record(),
            owned_buckets=None if self._node.admission.owns_all_buckets else self._owned,
            num_buckets=settings.num_buckets,
            ttl=self._ttl,
            paths=paths,
            attached=frozenset(memos),
            served=frozenset(term for each in found for term in each.generation.served),
            silent=living - answered,
            accepted={submission.id: submission for submission in submissions},
        )

    def _term_record(self) -> TermRecord:
        return TermRecord(
            term=self._term,
            node=self._settings.node,
            node_id=self._identity.node_id,
            boot_id=boot_id(),
            lock_inode=self._lock.inode,
            started_at=datetime.now(UTC),
        )

    def _node_record(self) -> NodeRecord:
        settings = self._settings
        return NodeRecord(
            node=settings.node,
            node_id=self._identity.node_id,
            term=self._term,
            host=host_name(),
            boot_id=boot_id(),
            pid=os.getpid(),
            version=version("chong"),
            ttl=self._ttl,
            limits={"node": settings.max_parallel, "per_bucket": settings.max_parallel_per_bucket},
            started_at=datetime.now(UTC),
        )

    def _contact(self, scene: Scene) -> None:
        """In the store thread: the term's first contact; tried until it succeeds."""
        try:
            findings = find(self._store, scene)
        except StoreUnavailable as error:
            self._loop.call(partial(self._store_not_met, scene, error))
        except ChongError as error:
            self._met.set_exception(error)
        else:
            self._loop.call(partial(self._store_met, findings))

    def _store_not_met(self, scene: Scene, error: StoreUnavailable) -> None:
        self._log.warning("waiting_for_store", error=str(error))
        if not self._met.done():
            self._met.set_result(None)
        self._loop.later(CONTACT_RETRY, partial(self._courier.do, partial(self._contact, scene)))

    def _store_met(self, findings: Findings) -> None:
        self._node.adopt_buckets(findings.num_buckets)
        self._takeover.carry_out(findings, self._node)
        self._processes.retire_old()
        self._keeper.start()
        self._takeover.judge_later(
            findings, Judge(self._store, self._term), self._node, every=min(1.0, self._settings.renewal)
        )
        self._poller.start()
        self._sampler.start()
        self._node.begin_accepting(findings.unsaved)
        if not self._met.done():
            self._met.set_result(None)

    def _run(self) -> None:
        try:
            self._loop.run(self._node.turn)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the term must end and say so
            self._fault = error
            self._log.critical("main_loop_failed", error=repr(error), exc_info=error)
            if not self._met.done():
                self._met.set_exception(error)

    # --- the end of a term -----------------------------------------------------------------------------------

    def _end(self) -> None:
        self._call(self._processes.end)
        patience = time.monotonic() + CLOSE_SECONDS
        self._wait_until(lambda: self._processes.is_empty, lambda: patience)
        self._keeper.close(CLOSE_SECONDS)
        self._poller.close(CLOSE_SECONDS)
        self._sampler.close(CLOSE_SECONDS)
        self._call(self._shut_down)
        self._thread.join(CLOSE_SECONDS)
        self._courier.close(CLOSE_SECONDS)
        self._loop.close()
        self._lock.close()

    def _shut_down(self) -> None:
        if len(self._outbox):
            self._log.error("unsent", writes=len(self._outbox))
        self._control.close()
        self._processes.close()
        self._loop.end()

    def _call(self, function: Callable[[], T]) -> T:
        """Run a function in the main loop's thread, here when that has ended."""
        if not self._thread.is_alive():
            return function()
        answer: Future[T] = Future()
        self._loop.call(partial(_settle, answer, function))
        return answer.result(CLOSE_SECONDS)

    def _wait_until(self, condition: Callable[[], bool], until: Callable[[], float]) -> None:
        while not self._call(condition) and time.monotonic() < until():
            time.sleep(LOOK)


def _recorded_buckets(store: TaskStore) -> int | None:
    try:
        return store.deployment().num_buckets
    except StoreUnavailable:
        return None


def _resolve(answer: Future[TaskSnapshot], outcome: TaskSnapshot | ChongError) -> None:
    if isinstance(outcome, ChongError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _settle(answer: Future[T], function: Callable[[], T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as error:
        answer.set_exception(error)
        raise
