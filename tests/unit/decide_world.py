"""The world around `decide`, played: a store that answers late, a forkserver, a worker, timers and a crash.

Every effect is checked as it is performed, so a test only has to make things happen.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from chong.store.model import Action, TaskSnapshot, Transition
from chong.store.specimens import START, queued
from chong.store.specimens import step as first_step
from chong.store.states import Status, is_allowed
from chong.supervisor import events as e
from chong.supervisor.decide import decide
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.verdict import ProcessEnd
from chong.worker.options import Options
from chong.worker.wire import Down

KEEP = 10**9
"""The version of a frame that stays in its socket until the run is released."""
AFTER_STOP = frozenset({Status.STOPPING, Status.STOPPED, Status.SUCCEEDED, Status.CANCELLED})


@dataclass(slots=True)
class Worker:
    """The process of one attempt, as it really is."""

    attempt: int
    is_shut: bool = False
    is_killed: bool = False
    is_frozen: bool = False
    went: bool = False
    ran: bool = False
    gone: ProcessEnd | None = None
    is_released: bool = False
    go_terms: set[int] = field(default_factory=set)
    frames: list[tuple[e.Happening, str, int]] = field(default_factory=list)
    downs: list[e.SendDown] = field(default_factory=list)


class World:
    """Holds one task; `state` is what `decide` knows of it, everything else is what is the case."""

    def __init__(self, *, max_attempts: int = 3, **options: Any) -> None:
        task = queued(max_attempts=max_attempts)
        self.state = TaskState(task=task, options=Options(**options), term="node-a.1", epoch=1)
        self.clock = 0.0
        self.events = 0
        self.effects: list[e.Effect] = []
        self.unsent: deque[e.SaveState] = deque()
        self.stored: TaskSnapshot | None = None
        self.trail: list[Transition] = []
        self.asked: dict[str, e.Asked] = {}
        self.ends: list[tuple[str, int]] = []
        self.timers: dict[e.TimerName, float] = {}
        self.worker: Worker | None = None
        self.last_number = (0, 0)
        self.is_queued = True
        self.has_slot = False
        self.is_spawn_asked = False
        self.is_desynced = False
        self.is_forgotten = False
        self.unsent.append(e.SaveState(task, (first_step(None, task),)))
        self.trail.append(first_step(None, task))

    # --- what a test may ask -----------------------------------------------------------------------------------

    @property
    def task(self) -> TaskSnapshot:
        return self.state.task

    @property
    def is_alive(self) -> bool:
        return self.worker is not None and self.worker.gone is None

    @property
    def is_idle(self) -> bool:
        return self.state.phase is Phase.IDLE and self.task.status.is_waiting

    def open_commands(self) -> list[str]:
        ended = {command for command, _ in self.ends}
        return [command for command in self.asked if command not in ended]

    # --- what can happen ---------------------------------------------------------------------------------------

    def feed(self, what: e.Happening, event_id: str | None = None) -> None:
        """As the supervisor's `Tasks.feed`: the new state is known before its effects are performed."""
        assert not self.is_forgotten
        self.events += 1
        event = e.Event(what, self.now(), self.clock, event_id or f"event.{self.events}")
        self.state, effects = decide(self.state, event)
        self._perform_all(effects)

    def now(self) -> Any:
        return START + timedelta(seconds=self.clock)

    def give_slot(self) -> None:
        self.is_queued, self.has_slot = False, True
        self.feed(e.SlotFree(1))

    def acknowledge(self, most: int = 1) -> None:
        """The store takes the oldest save, joined with later ones as long as they start no attempt."""
        save = self.unsent.popleft()
        for _ in range(most - 1):
            if self.unsent and not self.unsent[0].starts:
                save = self.unsent.popleft()
        self.stored = save.snapshot
        self.feed(e.Stored(save.snapshot.version))

    def answer_spawn(self, *, refused: str | None = None) -> None:
        self.is_spawn_asked = False
        if refused is None:
            self.worker = Worker(self.task.attempt)
            self.feed(e.Spawned(4000 + self.task.attempt))
        else:
            self.feed(e.SpawnRefused(refused), f"{self.task.run}.refused")

    def lose_forkserver(self) -> None:
        self.is_spawn_asked = False
        self.feed(e.ForkserverLost(), f"{self.task.run}.unforked")

    def say(self, what: e.Happening) -> None:
        """A frame of the worker."""
        worker = self.worker
        frame_id = f"{self.task.run}.{len(worker.frames) + 1}"
        worker.ran = worker.ran or (isinstance(what, e.Started) and worker.went)
        self.feed(what, frame_id)
        keep = isinstance(what, e.ResultArrived | e.FailureArrived)
        worker.frames.append((what, frame_id, KEEP if keep else self.task.version))

    def end_worker(self, exit_: ProcessEnd) -> None:
        self.worker.gone = exit_
        self.feed(e.Exited(exit_), f"{self.task.run}.exit")

    def ask(self, action: Action, *, by_node: bool = False) -> None:
        command = None if by_node else f"command-{len(self.asked) + 1}"
        asked = e.Asked(action, "ann", None, command)
        if command is not None:
            self.asked[command] = asked
        self.feed(asked)

    def fire(self, name: e.TimerName) -> None:
        self.clock = max(self.clock, self.timers.pop(name))
        self.feed(e.TimerFired(name), f"{self.task.run}.{name}")

    def desync(self) -> None:
        self.is_desynced = True
        self.unsent.clear()
        self.feed(e.Desynced("another hand"))

    def go_on(self, steps: int) -> None:
        """The plain way of a task, some steps of it: it starts, is paused and resumed; the store always answers."""
        way = [
            self.give_slot,
            self.acknowledge,
            self.answer_spawn,
            lambda: self.say(e.Ready()),
            lambda: self.say(e.Started()),
            self.acknowledge,
            lambda: self.ask(Action.PAUSE),
            self.acknowledge,
            lambda: self.say(e.Answered(Down.PAUSE, self.worker.downs[-1].number)),
            self.acknowledge,
        ]
        if steps:
            self.acknowledge()
        for do in way[:steps]:
            do()

    # --- a supervisor's death ------------------------------------------------------------------------------------

    def crash(self, *, forked_late: bool) -> None:
        """The supervisor dies and the next term takes over what the store and the forkserver have."""
        assert self.stored is not None
        self.unsent.clear()
        self.timers.clear()
        version = self.stored.version
        self.trail = [moved for moved in self.trail if moved.version <= version]
        self.ends = [(command, at) for command, at in self.ends if at <= version]
        if self.is_spawn_asked and forked_late:
            self.worker = Worker(self.stored.attempt)
        self.is_spawn_asked = False
        self._begin_term(version)
        for command in self.open_commands():
            if self.is_forgotten:
                self.ends.append((command, version))  # answered without a task
            else:
                self.feed(self.asked[command])

    def _begin_term(self, version: int) -> None:
        task, epoch = self.stored, self.state.epoch + 1
        worker = self.worker if self.worker and not self.worker.is_released else None
        self.has_slot = self.is_queued = False
        if not task.status.is_run:
            if worker is not None:
                assert worker.gone is not None
                worker.is_released = True
            self.is_queued, self.is_forgotten = task.status.is_waiting, task.status.is_final
        else:
            task = self.stored = replace(task, version=task.version + 1)  # adopted
        self.state = TaskState(
            task=replace(task, lease_owner=f"node-a.{epoch}"),
            options=self.state.options,
            term=f"node-a.{epoch}",
            epoch=epoch,
            stored_version=task.version,
            pid=4000 + task.attempt if worker is not None and task.status.is_run else None,
        )
        if task.status.is_run:
            self.has_slot = True
            self._take_over(worker, version)

    def _take_over(self, worker: Worker | None, popped: int) -> None:
        if worker is None:
            self.state = replace(self.state, phase=Phase.SPAWNING)
            self.feed(e.ForkserverLost(), f"{self.task.run}.unforked")
            return
        self.feed(e.TakenOver(), f"{self.task.run}.takeover")
        for number, (what, frame_id, version) in enumerate(worker.frames):
            if version > popped:
                self.feed(what, frame_id)
                if version != KEEP:
                    worker.frames[number] = (what, frame_id, self.task.version)
        if worker.gone is not None:
            self.feed(e.Exited(worker.gone), f"{self.task.run}.exit")

    # --- to the end ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Let everything come to its end, and see that it does."""
        for _ in range(300):
            if self.is_forgotten:
                break
            self._help()
        assert self.is_forgotten
        assert self.open_commands() == []

    def _help(self) -> None:
        if self.unsent:
            self.acknowledge()
        elif self.is_spawn_asked:
            self.answer_spawn()
        elif self.is_alive:
            self.end_worker(ProcessEnd(signal=9) if self.worker.is_killed else ProcessEnd(code=0))
        elif self.is_queued:
            self.ask(Action.STOP)
        else:
            raise AssertionError(f"stuck: {self.state}")

    # --- effects -------------------------------------------------------------------------------------------------

    def _perform_all(self, effects: list[e.Effect]) -> None:
        self.effects = effects
        for effect in effects:
            # A command's answer goes its own way; everything else needs the task.
            assert not self.is_forgotten or isinstance(effect, e.AnswerCommand), "Forget is the last effect of all"
            getattr(self, f"_on_{type(effect).__name__.lower()}")(effect)
        if not self.is_forgotten:
            self._check()

    def _check(self) -> None:
        if self.is_alive:
            assert self.has_slot
        waits = self.state.phase in {Phase.SPAWNING, Phase.FORKED, Phase.GOING}
        said = self.state.result is not None or self.state.failure is not None
        stuck = self.state.phase is Phase.SPAWNING  # its timer has fired: the forkserver is being killed
        killed = self.is_alive and self.worker.is_killed
        if waits and not said and not stuck and not killed:
            assert self.timers.keys() & {e.TimerName.START, e.TimerName.KILL, e.TimerName.TERM}
        if self.timers:
            assert self.state.has_process or self.is_spawn_asked
        if self.is_desynced and self.is_alive:
            assert self.worker.is_killed or self.worker.is_shut
        elif self.is_alive and not self.worker.is_killed and not said:
            assert self.worker.is_frozen == self.state.is_frozen
        assert not self.state.is_frozen or self.task.status is Status.PAUSED

    def _on_savestate(self, save: e.SaveState) -> None:
        assert not self.is_desynced, "another writer speaks for the task"
        for moved in save.transitions:
            self._check_move(moved)
            self.trail.append(moved)
        last, task = self.trail[-1], save.snapshot
        assert (last.version, last.target) == (task.version, task.status)
        assert task.status.is_final == (task.ended_at is not None)
        assert save.starts == any(moved.target is Status.STARTING for moved in save.transitions)
        before = self.unsent[-1].snapshot if self.unsent else self.stored
        assert before.attempt + save.starts == task.attempt
        assert before.unstarted <= task.unstarted <= task.attempt
        assert task.attempts_used <= task.max_attempts
        self.unsent.append(save)
        for completion in save.completes:
            self._end_command(completion.command_id, task.version)

    def _check_move(self, moved: Transition) -> None:
        last = self.trail[-1]
        assert is_allowed(moved.source, moved.target)
        assert moved.source == last.target
        assert moved.version > last.version
        assert moved.event_id not in {earlier.event_id for earlier in self.trail}
        assert moved.target is not Status.LOST, "nothing is lost by itself"
        stored_stop = self.unsent[-1].snapshot.stop if self.unsent else self.stored.stop if self.stored else None
        if stored_stop is not None:
            assert moved.target in AFTER_STOP
        if moved.target is Status.QUEUED:
            assert self.worker is None or not self.worker.ran or self.worker.attempt < self.task.attempt

    def _on_addnote(self, effect: e.AddNote) -> None:
        assert effect.note.task_id == self.task.id

    def _on_answercommand(self, effect: e.AnswerCommand) -> None:
        self._end_command(effect.completion.command_id, 0)

    def _end_command(self, command: str, version: int) -> None:
        assert command in self.open_commands(), f"{command} ends twice"
        self.ends.append((command, version))

    def _on_beaten(self, _: e.Beaten) -> None:
        assert not self.is_desynced

    def _on_measured(self, _: e.Measured) -> None:
        assert not self.is_desynced

    def _on_spawn(self, _: e.Spawn) -> None:
        assert self.has_slot
        assert not self.is_alive
        assert not self.is_spawn_asked
        assert not self.is_desynced
        assert (self.task.attempt, Status.STARTING) == (self.stored.attempt, self.stored.status)
        assert self.task.stop is None
        assert self.worker is None or self.worker.attempt < self.task.attempt
        self.is_spawn_asked = True

    def _on_sendgo(self, go: e.SendGo) -> None:
        worker = self.worker
        assert self.is_alive
        assert not self.is_desynced
        assert self.task.stop is None
        assert self.stored.attempt == self.task.attempt
        assert self.state.epoch not in worker.go_terms
        worker.go_terms.add(self.state.epoch)
        worker.went = worker.went or not (worker.is_shut or worker.is_killed)
        self._check_number(go.number)

    def _on_senddown(self, down: e.SendDown) -> None:
        assert self.is_alive or self.worker.gone is not None
        assert down.kind is not Down.STOP or not self.worker.is_frozen, "nobody would hear it"
        self.worker.downs.append(down)
        self._check_number(down.number)

    def _check_number(self, number: tuple[int, int]) -> None:
        assert number > self.last_number
        self.last_number = number

    def _on_shutchannel(self, _: e.ShutChannel) -> None:
        assert self.is_alive or self.worker.gone is not None
        self.worker.is_shut = True

    def _on_signal(self, effect: e.Signal) -> None:
        assert self.worker is not None
        assert not self.worker.is_released
        self.worker.is_killed = self.worker.is_killed or effect.number == 9

    def _on_freeze(self, _: e.Freeze) -> None:
        assert self.state.phase is Phase.LIVE
        assert not self.worker.is_released
        self.worker.is_frozen = True

    def _on_thaw(self, _: e.Thaw) -> None:
        assert not self.worker.is_released
        self.worker.is_frozen = False

    def _on_forkserverstuck(self, _: e.ForkserverStuck) -> None:
        assert self.is_spawn_asked

    def _on_arm(self, arm: e.Arm) -> None:
        assert arm.seconds >= 0
        self.timers[arm.name] = self.clock + arm.seconds

    def _on_disarm(self, disarm: e.Disarm) -> None:
        self.timers.pop(disarm.name, None)

    def _on_requeue(self, requeue: e.Requeue) -> None:
        assert requeue.delay >= 0
        assert self.is_idle
        assert not self.has_slot
        self.is_queued = True

    def _on_leavequeue(self, _: e.LeaveQueue) -> None:
        self.is_queued = False

    def _on_freeslot(self, _: e.FreeSlot) -> None:
        assert self.has_slot or self.is_desynced, "a slot is freed once"
        assert not self.is_alive
        self.has_slot = False

    def _on_release(self, _: e.Release) -> None:
        worker = self.worker
        if worker is None or worker.attempt != self.task.attempt or worker.is_released:
            return  # nothing was forked for it, or it was released when its end was stored
        assert worker.gone is not None
        assert self.is_desynced or not self.stored.status.is_run
        worker.is_released = True

    def _on_forget(self, _: e.Forget) -> None:
        assert self.is_desynced or self.stored.status.is_final
        assert not self.is_alive
        assert not self.has_slot
        assert not self.is_spawn_asked
        assert self.worker is None or self.worker.is_released
        self.is_forgotten = True
