"""What a node does again and again beside its main loop, each in a thread of its own: see `Ticker`.

They look at what they are given and hand over; nothing about tasks is decided here.
"""

from collections.abc import Callable
from functools import partial

import structlog

from chong.store.contract import Bell, TaskStore
from chong.supervisor.alert_hook import AlertHook
from chong.supervisor.alert_notices import tell_alerts
from chong.supervisor.called_keys import CalledKeys
from chong.supervisor.commands import CommandPoller
from chong.supervisor.contact import Contact, Renewals
from chong.supervisor.failure_calls import FailureCalls
from chong.supervisor.leases import LeaseKeeper
from chong.supervisor.logbounds import GENERATION_LOG_MAX, LogBounds
from chong.supervisor.loop import Loop
from chong.supervisor.monitor import Monitor
from chong.supervisor.node import Node
from chong.supervisor.processes import Processes
from chong.supervisor.recurring import Recurring
from chong.supervisor.retention import retentions
from chong.supervisor.sampler import EVERY_SECONDS, Sampler
from chong.supervisor.settings import Settings
from chong.supervisor.shared_holds import SharedHolds
from chong.supervisor.spool import Spool
from chong.supervisor.tasks import Tasks
from chong.supervisor.ticker import Ticker

Act = Callable[[], float]
"""What is done each time; it returns the seconds until the next one."""

BELL_SECONDS = 1.0
"""For so long its thread may not notice that the node ends."""


class Tickers:
    """`all` are started with the first contact, and closed in the opposite order: renewal is the last to stop.

    `bounding` needs no store: what runs under a term that has not met it yet may fill the disk as well.
    """

    def __init__(
        self,
        settings: Settings,
        store: TaskStore,
        term: str,
        loop: Loop,
        node: Node,
        tasks: Tasks,
        spool: Spool,
        processes: Processes,
        shared_holds: SharedHolds,
        hook: AlertHook,
        called_keys: CalledKeys,
        failure_calls: FailureCalls,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._settings = settings
        self._store = store
        self._spool = spool
        self._term = term
        self._loop = loop
        self._node = node
        self._log = log
        self.keeper = self._lease_keeper(tasks)
        self.bounds = self._log_bounds(processes)
        poller = self._command_poller(shared_holds)
        acts = (
            ("chong-leases", self.keeper.renew),
            *(() if settings.only_one_task else self._looks(hook)),
            *(() if settings.only_one_task else [("chong-keys", called_keys.turn)]),
            *(() if settings.only_one_task else [("chong-failures", failure_calls.turn)]),
            ("chong-sampler", self._sampler(tasks).sample),
            *self._retentions(),
        )
        self.bounding = self._ticker("chong-log-bounds", self.bounds.look)
        commands = self._ticker("chong-commands", poller.poll)
        self.all = [*(self._ticker(name, act) for name, act in acts), commands]
        if (bell := store.bell(settings.node)) is not None:
            self.all.append(self._ticker("chong-bell", partial(_listen, bell, commands.nudge)))

    def _ticker(self, name: str, act: Act) -> Ticker:
        return Ticker(name, act, on_fault=self._loop.fail)

    def _say(self, event: str, **facts: object) -> None:
        """As an error, in the loop's thread."""
        self._loop.call(partial(self._log.error, event, **facts))

    def _lease_keeper(self, tasks: Tasks) -> LeaseKeeper:
        loop, node = self._loop, self._node
        trouble = Recurring(self._log, "renewal_failed", "renewal_back")
        renewing = Renewals(loop, node.outage, trouble, every=self._settings.renewal)
        return LeaseKeeper(
            self._store,
            self._term,
            ttl=self._settings.lease_seconds,
            every=self._settings.renewal,
            ids=lambda: tasks.leased_ids,
            loop_turned_at=lambda: loop.turned_at,
            on_begin=renewing.began,
            on_missing=lambda ids: loop.call(partial(node.leases_missing, ids)),
            on_error=renewing.failed,
            on_success=renewing.succeeded,
        )

    def _command_poller(self, shared_holds: SharedHolds) -> CommandPoller:
        loop, node = self._loop, self._node
        polling = Contact(loop, node.outage, Recurring(self._log, "poll_failed", "poll_back"))
        return CommandPoller(
            self._store,
            self._settings.node,
            self._term,
            every=self._settings.poll_seconds,
            on_commands=lambda commands: loop.call(partial(node.commands, commands)),
            known=lambda: shared_holds.seen,
            on_holds=lambda found: loop.call(partial(shared_holds.take, found)),
            on_error=polling.failed,
            on_success=polling.succeeded,
            on_unreadable=lambda fault: self._say("command_unreadable", error=str(fault)),
        )

    def _sampler(self, tasks: Tasks) -> Sampler:
        return Sampler(
            every=min(EVERY_SECONDS, self._settings.renewal),
            pids=tasks.worker_pids,
            on_usage=lambda usages: self._loop.call(partial(tasks.used, usages)),
        )

    def _log_bounds(self, processes: Processes) -> LogBounds:
        return LogBounds(
            logs=lambda: processes.logs.growing() | dict.fromkeys(processes.generations.logs(), GENERATION_LOG_MAX),
            ended=processes.logs.ended,
            on_trouble=lambda path, error: self._say("log_not_bounded", path=str(path), error=str(error)),
        )

    def _looks(self, hook: AlertHook) -> list[tuple[str, Act]]:
        """For what is wrong with the deployment, and the calls of the operator's command that come of them."""
        settings, log = self._settings, self._log
        monitor = Monitor(
            self._store,
            self._term,
            every=settings.alert_seconds,
            orphan_after=settings.orphan_after,
            configured=settings.configured,
            on_changes=partial(tell_alerts, node=settings.node, hook=hook, loop=self._loop, log=log),
            trouble=Recurring(log, "check_failed", "check_back"),
        )
        return [("chong-monitor", monitor.look), ("chong-alerts", hook.turn)]

    def _retentions(self) -> list[tuple[str, Act]]:
        log = self._log
        return retentions(
            self._settings,
            self._store,
            self._spool,
            on_pruned=lambda gone: self._loop.call(partial(log.info, "pruned", **gone)),
            files=Recurring(log, "files_not_pruned", "files_pruned"),
            tables=Recurring(log, "tables_not_kept_up", "tables_kept_up"),
            rows=Recurring(log, "store_not_pruned", "store_pruned"),
        )


def _listen(bell: Bell, on_ring: Callable[[], None]) -> float:
    if bell.wait(BELL_SECONDS):
        on_ring()
    return 0.0
