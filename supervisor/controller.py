"""A node as one object: what `chong-supervisor` runs, and what tests drive."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

import structlog

from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import ChongError, Refused, StoreUnavailable
from chong.store.model import Command, TaskSnapshot
from chong.store.query import TaskQuery
from chong.supervisor.client import Client
from chong.supervisor.containment import check_setting
from chong.supervisor.reconcile import Judge
from chong.supervisor.reloads import RELOAD_SECONDS, Reloaded
from chong.supervisor.settings import Settings, owned
from chong.supervisor.submission import Submission
from chong.supervisor.term import Term
from chong.worker.kernel import become_subreaper

T = TypeVar("T")


class Controller:
    """Owns the node from construction to `close`; a context manager. Its methods may be called from any thread.

    Takes `settings`, or their fields as keywords with `owned_buckets` as any iterable. Raises ConfigurationError
    before any thread, write or poll when an owned bucket is out of range, and before anything runs when the
    deployment has another number of buckets. The process becomes a child subreaper. While the store is out of reach
    the node waits for it: what runs goes on, nothing new starts before the first contact.
    """

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
        check_setting(self._settings.cgroup)
        policy = _agreed_policy(self._settings, store)
        self._settings.make_directories()
        self._settings.check_files()
        become_subreaper()
        self._closing = threading.Lock()
        self._is_closing = False
        self._closed = threading.Event()
        self._drain_until = time.monotonic() + self._settings.drain_seconds
        self._term = Term(self._settings, store, policy, log or structlog.get_logger("chong"))
        self._client = Client(store, issued_by=self._term.name)
        self._term.begin()

    @property
    def term(self) -> str:
        """The name of this life of the supervisor: the lease owner of its runs."""
        return self._term.name

    @property
    def num_buckets(self) -> int:
        return self._term.node.admission.policy.num_buckets

    @property
    def owned_buckets(self) -> frozenset[int] | None:
        return self._settings.owned_buckets

    @property
    def owns_all_buckets(self) -> bool:
        """Whether the node makes no partition: it is not limited, or owns every bucket."""
        return self._term.node.admission.owns_all_buckets

    def owns_bucket(self, bucket: int) -> bool:
        """Answers ownership only, not whether work without a key may be submitted."""
        return self._term.node.admission.owns_bucket(bucket)

    @property
    def desynced_tasks(self) -> dict[str, str]:
        """Tasks that another writer has changed, with what was seen; this term no longer writes them.

        The newest 1,000 of this term; each is in the log.
        """
        return dict(self._term.node.desynced)

    @property
    def running(self) -> int:
        """How many runs hold a slot at this moment."""
        return self._term.thread.call(lambda: self._term.queue.running)

    @property
    def renewals(self) -> int:
        """How often the leases were renewed so far, for whoever watches the node."""
        return self._term.tickers.keeper.renewals

    def submit(
        self,
        name: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        texts: dict[str, str] | None = None,
        unique_key: str | None = None,
        due_at: datetime | None = None,
        priority: int | None = None,
        retries: int | None = None,
        run_timeout: float | None = None,
        timeout: float = 30.0,
    ) -> TaskSnapshot:
        """Accept a task; returns it once it is stored, or is safe on this node's disk while the store is away.

        texts: parameters in words, which its signature makes JSON of. due_at: not to start before. priority, retries,
        run_timeout: in place of the definition's.

        Refused when its bucket is not ours or it has no key in a partition, the name is unknown, the unique key is
        taken, or the node is full or going down; ConfigurationError for what could be no submission; TimeoutError when
        nothing of that is known within `timeout` seconds.
        """
        submission = Submission(
            name=name,
            key=key,
            params=params or {},
            texts=texts or {},
            unique_key=unique_key,
            due_at=due_at,
            priority=priority,
            retries=retries,
            run_timeout=run_timeout,
        )
        self._term.node.admission.bucket_for(key)
        if self._is_closing:
            raise Refused("the node is closed and takes no new work")
        answer: Future[TaskSnapshot] = Future()
        self._term.loop.call(partial(self._term.node.intake.submit, submission, partial(_resolve, answer)))
        return answer.result(timeout)

    def stop(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a stop; it is accepted in every state that is not final."""
        return self._client.stop(task_id, reason)

    def pause(self, task_id: str, reason: str | None = None) -> Command:
        return self._client.pause(task_id, reason)

    def freeze(self, task_id: str, reason: str | None = None) -> Command:
        """Ask for a pause at once, by stopping the task's processes."""
        return self._client.freeze(task_id, reason)

    def resume(self, task_id: str, reason: str | None = None) -> Command:
        return self._client.resume(task_id, reason)

    def reload(self, timeout: float = RELOAD_SECONDS) -> Reloaded:
        """Load the task modules anew, for all runs from then on; runs under way go on with the code that they have.

        Refused when the new generation does not come to life, so that the one before goes on; when it has to wait,
        because as many generations as there may be have runs; and when the node is closing. TimeoutError when
        nothing of that is known within `timeout` seconds.
        """
        if self._is_closing:
            raise Refused("the node is closed and loads no new code")
        answer: Future[Reloaded] = Future()
        self._term.loop.call(partial(self._term.node.reload, partial(_resolve, answer)))
        return answer.result(timeout)

    def begin_reload(self) -> None:
        """As `reload`, without waiting: what becomes of it is in the log."""
        self._term.loop.call(partial(self._term.node.reload, lambda _: None))

    def kill(self, task_id: str) -> None:
        """SIGKILL to a task's run, at once; nothing happens when it has none. Its end is judged as any other."""
        self._term.thread.call(partial(self._term.node.kill, task_id))

    def query(self, query: TaskQuery) -> list[TaskSnapshot]:
        return self._store.query(query)

    def reconcile(self, *, dry_run: bool = False) -> list[TaskSnapshot]:
        """Call runs of dead holders in our own buckets `lost`, after watching each for one lease.

        With `dry_run` the candidates, at once.
        """
        judge = Judge(self._store, self._term.name)
        buckets = None if self.owns_all_buckets else self._settings.owned_buckets
        return judge.candidates(buckets) if dry_run else judge.reconcile(buckets)

    @property
    def fault(self) -> BaseException | None:
        """What ended the main loop, or failed while closing: the process should end, the next term takes over."""
        return self._term.thread.fault

    def close(self, drain_seconds: float | None = None) -> None:
        """End the term: drain, stop what is left, flush, let the forkservers go. Idempotent.

        Running tasks get `drain_seconds` (default: the setting) to end by themselves, then they are asked to
        stop. Whoever calls it a second time waits for the first.
        """
        with self._closing:
            is_first, self._is_closing = not self._is_closing, True
        if not is_first:
            self._closed.wait()
            return
        self._drain_until = time.monotonic() + (
            self._settings.drain_seconds if drain_seconds is None else drain_seconds
        )
        try:
            self._term.end(lambda: self._drain_until)
        finally:
            self._closed.set()

    def close_in_thread(self) -> None:
        """Begin to close, for a caller that goes on listening for signals; `wait` tells when it is done."""
        threading.Thread(target=self._close_and_tell, name="chong-close").start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the node is closed; False when it is not within `timeout` seconds."""
        return self._closed.wait(timeout)

    def hurry(self) -> None:
        """Shorten a drain under way: ask what still runs to stop now."""
        self._drain_until = time.monotonic()

    def _close_and_tell(self) -> None:
        try:
            self.close()
        except BaseException as error:  # noqa: BLE001 - it is told by `fault`
            self._term.thread.fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _agreed_policy(settings: Settings, store: TaskStore) -> BucketPolicy:
    """The number of buckets, as far as it can be known now; ConfigurationError when the ownership contradicts it."""
    try:
        recorded = store.deployment().num_buckets
    except StoreUnavailable:
        # Nobody knows the number, if none was named: the first contact checks the ownership.
        return BucketPolicy(settings.num_buckets or DEFAULT_NUM_BUCKETS)
    return settings.agreed_policy(recorded)


def _resolve(answer: Future[T], outcome: T | ChongError) -> None:
    if isinstance(outcome, ChongError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
