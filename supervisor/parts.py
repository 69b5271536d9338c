"""The parts of a term that have to do with tasks, made and joined."""

import os
from datetime import timedelta
from functools import partial

import structlog

from chong.store.contract import TaskStore
from chong.store.model import LeaseGrant
from chong.supervisor.admission import Admission
from chong.supervisor.alert_hook import AlertHook
from chong.supervisor.called_keys import CalledKeys
from chong.supervisor.courier import Courier
from chong.supervisor.environment import environment_of_tasks
from chong.supervisor.failure_calls import FailureCalls, Wish
from chong.supervisor.firings import Firings
from chong.supervisor.gatekeeper import Gatekeeper
from chong.supervisor.group_requests import GroupRequests
from chong.supervisor.groups import Groups
from chong.supervisor.holds import Holds
from chong.supervisor.inquiries import Inquiries
from chong.supervisor.intake import Intake
from chong.supervisor.loop import Loop
from chong.supervisor.node import Node
from chong.supervisor.outbox import Outbox
from chong.supervisor.processes import Processes
from chong.supervisor.queue import Limits, TurnQueue
from chong.supervisor.rerun import Reruns
from chong.supervisor.settings import Settings
from chong.supervisor.shared_holds import SharedHolds
from chong.supervisor.spool import Spool
from chong.supervisor.tasks import Tasks
from chong.supervisor.tickers import Tickers
from chong.supervisor.told_keys import ToldKeys
from chong.supervisor.troubles import Troubles


class Parts:
    """All of them live in the main loop's thread but the tickers, which have threads of their own."""

    def __init__(
        self,
        settings: Settings,
        store: TaskStore,
        admission: Admission,
        *,
        term: str,
        loop: Loop,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        paths = settings.paths
        self.outbox = Outbox(LeaseGrant(term, timedelta(seconds=settings.lease_seconds)))
        self.queue = TurnQueue(Limits(settings.max_parallel, settings.max_parallel_per_bucket))
        self.spool = Spool(paths, loop, Troubles(log).complain)
        self.tasks = Tasks(loop, paths, self.outbox, self.queue, self.spool, log)
        intake = Intake(
            loop=loop,
            store=store,
            admission=admission,
            spool=self.spool,
            outbox=self.outbox,
            queue=self.queue,
            tasks=self.tasks,
            log=log,
        )
        self.node = Node(
            loop=loop,
            store=store,
            intake=intake,
            spool=self.spool,
            outbox=self.outbox,
            queue=self.queue,
            tasks=self.tasks,
            log=log,
        )
        self.gatekeeper = self.node.gatekeeper = self._make_gatekeeper(settings, term, intake, log)
        self.firings = Firings(loop=loop, store=store, intake=intake, tasks=self.tasks, log=log)
        self.groups = self.node.groups = Groups(
            loop=loop, store=store, spool=self.spool, tasks=self.tasks, intake=intake, log=log
        )
        self.group_requests = GroupRequests(groups=self.groups, intake=intake, spool=self.spool, tasks=self.tasks)
        self.reruns = Reruns(loop=loop, store=store, spool=self.spool, tasks=self.tasks, intake=intake)
        self.hook = AlertHook(
            settings.alert_command,
            on_failure=lambda why: loop.call(partial(log.error, "alert_command_failed", why=why)),
        )
        self.called_keys = CalledKeys(
            lambda: environment_of_tasks(os.environ, settings.pass_env),
            lambda wanted, found: loop.call(partial(self.node.keys_found, wanted, found)),
        )
        self.node.told_keys = ToldKeys(self.called_keys.want, self.node.publish, log)
        self.failure_calls = FailureCalls(
            settings.node,
            self._wish_of,
            lambda: environment_of_tasks(os.environ, settings.pass_env),
            lambda ids: loop.call(partial(self.spool.drop_notices, ids)),
            lambda name, why, gone: loop.call(partial(_tell_trouble, log, name, why, is_given_up=gone)),
        )
        self.tasks.on_bad_end = self.failure_calls.add
        # Before the first reaper: these calls are children that somebody waits for.
        self.processes = Processes(
            loop,
            settings,
            term,
            self.node,
            awaited_elsewhere=lambda: self.hook.pids | self.called_keys.pids | self.failure_calls.pids,
        )
        self.courier = Courier(
            loop, store, term, self.outbox, self.node, self.node.outage, num_buckets=self._num_buckets
        )
        self.inquiries = self.node.inquiries = Inquiries(
            loop=loop, store=store, node=settings.node, tasks=self.tasks, outage=self.node.outage, courier=self.courier
        )
        self.shared_holds = self._make_shared_holds(settings, store, term, loop, log)
        # Each of the three calls the others: the node is told of its parts once they exist.
        self.tasks.processes = self.node.processes = self.processes
        self.node.courier = intake.courier = self.firings.courier = self.courier
        self.tickers = Tickers(
            settings,
            store,
            term,
            loop,
            self.node,
            self.tasks,
            self.spool,
            self.processes,
            self.shared_holds,
            self.hook,
            self.called_keys,
            self.failure_calls,
            log,
        )

    def _wish_of(self, name: str) -> Wish | None:
        """From another thread: the definitions are replaced whole, never changed."""
        catalogue = self.node.intake.catalogue
        if catalogue is None:
            return None
        task = catalogue.tasks.get(name)
        return Wish(None, 0.0) if task is None else Wish(task.options.on_failure, task.options.on_failure_every)

    def _num_buckets(self) -> int:
        """As it stands: an adopted number replaces the one that the node began with."""
        return self.node.admission.policy.num_buckets

    def _make_gatekeeper(
        self, settings: Settings, term: str, intake: Intake, log: structlog.typing.FilteringBoundLogger
    ) -> Gatekeeper:
        return Gatekeeper(
            node=settings.node,
            term=term,
            holds=Holds(settings.paths.holds),
            queue=self.queue,
            tasks=self.tasks,
            intake=intake,
            on_change=self.node.publish,
            crashes=settings.breaker_crashes,
            log=log,
        )

    def _make_shared_holds(
        self, settings: Settings, store: TaskStore, term: str, loop: Loop, log: structlog.typing.FilteringBoundLogger
    ) -> SharedHolds:
        return SharedHolds(
            loop,
            store,
            self.courier,
            self.gatekeeper,
            node=settings.node,
            term=term,
            num_buckets=self._num_buckets,
            on_forgotten=self.node.register_again,
            log=log,
        )


def _tell_trouble(log: structlog.typing.FilteringBoundLogger, name: str, why: str, *, is_given_up: bool) -> None:
    if is_given_up:
        log.error("failure_not_told", name=name, why=why)
    else:
        log.warning("failure_told_later", name=name, why=why)
