"""The tasks in this node's hands: feeds events to `decide` and performs what it says."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog

from chong.store.model import Beat, Failure, FailureKind, TaskSnapshot, Usage
from chong.store.states import Status
from chong.store.view import as_json
from chong.supervisor import events as e
from chong.supervisor.decide import decide
from chong.supervisor.handover import Handover, ParamsGone
from chong.supervisor.loop import Loop, Timer
from chong.supervisor.outbox import Outbox
from chong.supervisor.paths import Paths
from chong.supervisor.processes import Processes
from chong.supervisor.queue import Place, TurnQueue
from chong.supervisor.recurring import Recurring
from chong.supervisor.retry import retry_left
from chong.supervisor.spool import MemberEnd, Spool
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.waiting_room import WaitingRoom
from chong.worker.wire import encode_down


class Tasks:
    """Lives in the loop's thread. A task is here from its acceptance until its final state is stored."""

    def __init__(
        self,
        loop: Loop,
        paths: Paths,
        outbox: Outbox,
        queue: TurnQueue,
        spool: Spool,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._queue = queue
        self._spool = spool
        self._handover = Handover(paths, spool, log)
        self._log = log
        # On a full disk each of them comes with every task, or with every checkpoint.
        self._keeping = Recurring(log, "state_not_kept", "state_kept", grave=True, concerns_many=True)
        self._sending = Recurring(log, "go_not_sent", "go_sent", grave=True, concerns_many=True)
        self._states: dict[str, TaskState] = {}
        self._timers: dict[tuple[str, e.TimerName], Timer] = {}
        self._leased: set[str] = set()
        self.leased_ids: tuple[str, ...] = ()
        """The tasks whose leases are ours, for the lease keeper's thread: replaced whole, never changed."""
        self.processes: Processes
        """Set by the term, which joins the two."""
        self.on_due: Callable[[str], None]
        """Told of a task whose time has come, which then is to be enqueued by the limits that count now."""
        self._waiting_room = WaitingRoom(loop, self._due)
        self.on_move: Callable[[e.SaveState], None]
        """Told of each change of state that is about to be stored."""
        self.on_forget: list[Callable[[TaskState], None]] = []
        """Told of each task that leaves the node's hands, as it is known here at last."""
        self.on_bad_end: Callable[[Mapping[str, Any]], None] = lambda _: None
        """Told what is to be told of each task that has failed or is lost."""
        self._barred: set[str] = set()
        self._performers = self._performers_by_kind()

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._states

    def get(self, task_id: str) -> TaskState | None:
        return self._states.get(task_id)

    def all(self) -> list[TaskState]:
        return list(self._states.values())

    def add(self, state: TaskState, effects: list[e.Effect]) -> None:
        """Take a task in, and perform what its first state asks for."""
        self._states[state.task.id] = state
        if state.pid is not None:
            self._lease(state.task.id)
            self._queue.occupy(state.task.id, place_of(state))
        for effect in effects:
            self._perform(state, effect)

    def put(self, state: TaskState) -> None:
        """Replace what is known of a task, without any event."""
        self._states[state.task.id] = state

    @property
    def later(self) -> int:
        """How many wait for a time of their own."""
        return len(self._waiting_room)

    @property
    def barred(self) -> int:
        """How many wait for others to let them go."""
        return len(self._barred)

    def bar(self, ids: Iterable[str]) -> None:
        """Let these wait, whatever else would queue them, until each is unbarred."""
        self._barred.update(ids)

    def unbar(self, task_id: str) -> None:
        self._barred.discard(task_id)

    def has_open_start(self, generation: int) -> bool:
        """Whether a start that was claimed for this generation needs it."""
        return any(state.generation == generation and state.is_start_open for state in self._states.values())

    def worker_pids(self) -> dict[str, int]:
        """The living workers by task id; safe to call from other threads."""
        return {s.task.id: s.pid for s in list(self._states.values()) if s.has_process and s.pid is not None}

    def used(self, usages: dict[str, Usage]) -> None:
        """Samples; one that comes after the end would hide what the kernel has told of all of the run."""
        for task_id, usage in usages.items():
            state = self._states.get(task_id)
            if task_id in self._leased and state is not None and state.has_process:
                self._outbox.add_beat(Beat(task_id, usage=usage))

    def feed(self, task_id: str, what: e.Happening, event_id: str, at: datetime | None = None) -> TaskState | None:
        """Something happened to a task; returns its new state, None when it is not here."""
        state = self._states.get(task_id)
        if state is None:
            return None
        event = e.Event(what, at or datetime.now(UTC), time.monotonic(), event_id)
        state, effects = decide(state, event)
        self._states[task_id] = state
        for effect in effects:
            self._perform(state, effect)
        return state

    def stored(self, task_id: str, version: int) -> None:
        """The store has this version: frames that led to it may leave their socket."""
        state = self._states.get(task_id)
        if state is None:
            return
        self.processes.pop_stored(state.task.run, version)
        state = self.feed(task_id, e.Stored(version), f"{task_id}.stored.{version}")
        if state is None or state.phase is Phase.IDLE:
            self.unlease(task_id)

    def keep_state(self, task_id: str, text: str, then: Callable[[], None] = lambda: None) -> None:
        """`then` is called when it is on the disk, or will never be there."""

        def kept(error: SpoolError | None) -> None:
            if error is not None:  # a full disk costs the newest state, never the node
                self._keeping.again(error, task=task_id)
            else:
                self._keeping.end()
            then()

        self._spool.keep_state(task_id, text, kept)

    def drop_files(self, task: TaskSnapshot) -> None:
        """What this node keeps of a task that is over; what stays now goes when the next term finds it."""
        group = task.group_id if task.status.is_final else None
        notice = notice_of(task) if task.status in _BAD else None
        self._spool.drop(task.id, task.attempt, None if group is None else MemberEnd(group, task.status), notice)
        if notice is not None:
            self.on_bad_end(notice)

    # --- effects -------------------------------------------------------------------------------------------

    def _performers_by_kind(self) -> dict[type, Callable[[TaskState, Any], None]]:
        return {
            e.SaveState: self._save,
            e.AddNote: self._note,
            e.AnswerCommand: self._answer,
            e.Beaten: self._beat,
            e.Measured: self._measure,
            e.Spawn: self._spawn,
            e.SendGo: self._send_go,
            e.SendDown: self._send_down,
            e.ShutChannel: self._shut,
            e.Signal: self._signal,
            e.Freeze: self._freeze,
            e.Thaw: self._thaw,
            e.ForkserverStuck: self._forkserver_stuck,
            e.Arm: self._arm,
            e.Disarm: self._disarm,
            e.Requeue: self._requeue,
            e.LeaveQueue: self._leave_queue,
            e.FreeSlot: self._free_slot,
            e.Release: self._release,
            e.Forget: self._forget,
        }

    def _perform(self, state: TaskState, effect: e.Effect) -> None:
        self._performers[type(effect)](state, effect)

    def _save(self, state: TaskState, save: e.SaveState) -> None:
        self._outbox.add(save)
        self.on_move(save)
        for transition in save.transitions:
            say = self._log.debug if transition.target in _QUIET else self._log.info
            say(
                "task_moved",
                task=state.task.id,
                name=state.task.name,
                version=transition.version,
                source=transition.source,
                target=transition.target,
                actor=transition.actor,
                reason=transition.reason,
            )

    def _note(self, _: TaskState, effect: e.AddNote) -> None:
        self._outbox.add_note(effect.note)
        self._log.warning("task_noted", task=effect.note.task_id, kind=effect.note.kind, detail=effect.note.detail)

    def _answer(self, _: TaskState, effect: e.AnswerCommand) -> None:
        self._outbox.add_completion(effect.completion)

    def _beat(self, state: TaskState, effect: e.Beaten) -> None:
        self._outbox.add_beat(Beat(state.task.id, effect.at, effect.progress))

    def _measure(self, state: TaskState, effect: e.Measured) -> None:
        self._outbox.add_beat(Beat(state.task.id, usage=effect.usage))

    def _spawn(self, state: TaskState, _: e.Spawn) -> None:
        task = state.task
        self._lease(task.id)
        title = " ".join(["chong: worker", task.name, *([task.bucket_key] if task.bucket_key else []), task.id[-8:]])
        self.processes.spawn(task.run, task.name, title, state.options, generation=state.generation)

    def _send_go(self, state: TaskState, go: e.SendGo) -> None:
        try:
            frame = self._handover.frame(go.number, state)
        except ParamsGone as error:
            gone = Failure(FailureKind.PROTOCOL, "params_gone", f"the parameters cannot be handed over: {error}"[:500])
            self._later(state, e.FailureArrived(gone), "params_gone")
            return
        except (
            OSError,
            SpoolError,
        ) as error:  # of the node, not of the task: it was not told to go, and starts another time
            self._sending.again(error, task=state.task.id)
            self._later(state, e.GoNotSent(), "not_sent")
            return
        self._sending.end()
        self.processes.send(state.task.run, frame, wake=False)  # it waits for this frame

    def _send_down(self, state: TaskState, down: e.SendDown) -> None:
        epoch, sequence = down.number
        self.processes.send(state.task.run, encode_down(down.kind, epoch, sequence, reason=down.reason), wake=True)

    def _shut(self, state: TaskState, _: e.ShutChannel) -> None:
        self.processes.shut(state.task.run)

    def _signal(self, state: TaskState, effect: e.Signal) -> None:
        self.processes.signal(state.task.run, effect.number, group=effect.group)

    def _freeze(self, state: TaskState, _: e.Freeze) -> None:
        self.processes.freeze(state.task.run)

    def _thaw(self, state: TaskState, _: e.Thaw) -> None:
        self.processes.thaw(state.task.run)

    def _forkserver_stuck(self, state: TaskState, _: e.ForkserverStuck) -> None:
        self.processes.kill_stuck(state.task.run, state.options.start_timeout)

    def _arm(self, state: TaskState, arm: e.Arm) -> None:
        self._disarm(state, e.Disarm(arm.name))
        fired = partial(self._fire, state.task.id, state.task.run, arm.name)
        self._timers[state.task.id, arm.name] = self._loop.later(arm.seconds, fired)

    def _disarm(self, state: TaskState, effect: e.Disarm) -> None:
        timer = self._timers.pop((state.task.id, effect.name), None)
        if timer is not None:
            timer.cancel()

    def _fire(self, task_id: str, run: str, name: e.TimerName) -> None:
        self._timers.pop((task_id, name), None)
        self.feed(task_id, e.TimerFired(name), f"{run}.{name}")

    def _requeue(self, state: TaskState, effect: e.Requeue) -> None:
        self.enqueue_later(state.task.id, effect.delay)

    def enqueue_later(self, task_id: str, delay: float) -> None:
        """Let a waiting task compete for a slot after `delay` seconds, whatever else would queue it before."""
        self.put(replace(self._states[task_id], not_before=time.monotonic() + delay))
        self._loop.later(delay, partial(self.on_due, task_id))

    def enqueue(self, task_id: str) -> None:
        """Let a waiting task compete for a slot, unless it is to wait a while longer."""
        state = self._states.get(task_id)
        if state is None or not state.may_start or task_id in self._barred:
            return
        if state.not_before is None and state.task.status is Status.RETRYING:
            # A former term's wait: it goes on from the failure, and is as long as that term had computed.
            self.enqueue_later(task_id, retry_left(state.task, state.options.backoff, datetime.now(UTC)))
        elif state.task.status is Status.QUEUED and self._waiting_room.holds_back(task_id, state.task.due_at):
            return  # `on_due` is told of it then
        elif state.not_before is None or state.not_before <= time.monotonic():
            self._queue.put(task_id, place_of(state), state.task.priority)

    def _due(self, task_id: str) -> None:
        self.on_due(task_id)

    def _leave_queue(self, state: TaskState, _: e.LeaveQueue) -> None:
        self._queue.remove(state.task.id)
        self._waiting_room.drop(state.task.id)

    def _free_slot(self, state: TaskState, _: e.FreeSlot) -> None:
        self._queue.free(state.task.id)

    def _release(self, state: TaskState, _: e.Release) -> None:
        self.processes.release(state.task.run)
        self._spool.drop_run(state.task.run)

    def _forget(self, state: TaskState, _: e.Forget) -> None:
        task_id = state.task.id
        self.drop_files(state.task)
        self._outbox.forget(task_id)
        self.unlease(task_id)
        for name in e.TimerName:
            self._disarm(state, e.Disarm(name))
        self._waiting_room.drop(task_id)
        self._barred.discard(task_id)
        del self._states[task_id]
        for told in self.on_forget:
            told(state)

    def _later(self, state: TaskState, what: e.Happening, suffix: str) -> None:
        # Not at once: the effects of the event that led here have not all been performed.
        self._loop.call(partial(self.feed, state.task.id, what, f"{state.task.run}.{suffix}"))

    def _lease(self, task_id: str) -> None:
        self._leased.add(task_id)
        self.leased_ids = tuple(self._leased)

    def unlease(self, task_id: str) -> None:
        if task_id in self._leased:
            self._leased.discard(task_id)
            self.leased_ids = tuple(self._leased)


_QUIET = frozenset({Status.QUEUED, Status.STARTING, Status.RUNNING})
"""Every task goes through these; the trail in the store has them."""


_BAD = frozenset({Status.FAILED, Status.LOST})


def notice_of(task: TaskSnapshot) -> dict[str, Any]:
    """What others are told of a bad end: no parameters, which stay on the node."""
    facts = as_json(task)
    said = ("id", "name", "bucket_key", "status", "attempt", "max_attempts", "group_id", "created_at", "ended_at")
    failure = facts["failure"] or {}
    return {
        **{name: facts[name] for name in said},
        "failure": {name: failure.get(name) for name in _TOLD} if failure else None,
    }


_TOLD = ("kind", "cause", "message")


def place_of(state: TaskState) -> Place:
    task, options = state.task, state.options
    return Place(task.bucket, task.name, options.max_parallel, task.bucket_key, options.max_parallel_per_key)
