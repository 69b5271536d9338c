"""What a new term does with each task that it found: builds its state and replays what is known of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from chong.store.model import Failure, FailureKind, TaskSnapshot
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.frames import interpret, state_of, time_of
from chong.supervisor.inventory import Inventory
from chong.supervisor.leftovers import Leftovers
from chong.supervisor.memo import options_of
from chong.supervisor.node import Node
from chong.supervisor.paths import Paths
from chong.supervisor.reconcile import Judge
from chong.supervisor.recurring import Recurring
from chong.supervisor.remains import Remains, read_remains
from chong.supervisor.scene import Scene
from chong.supervisor.task_state import Phase, TaskState
from chong.supervisor.verdict import ORPHANED, ProcessEnd
from chong.worker.wire import ProtocolError, Up, decode_up

BOTH_DEAD = "supervisor and forkserver died, and nothing was left that tells how the run ended"
SPOOL_GONE = "its submission is no longer in the state directory of its node"
ORPHANED_TEXT = "no supervisor came back while the forkserver held the worker; it was ended"

Happened = tuple[e.Happening, str, datetime]


class Takeover:
    """Carries out what a term found; `memos` are what the former term left with each attached run."""

    def __init__(self, term: str, epoch: int, paths: Paths, memos: Mapping[str, Any]) -> None:
        self._term = term
        self._epoch = epoch
        self._paths = paths
        self._memos = memos

    def carry_out(self, inventory: Inventory, node: Node) -> None:
        """Take everything in, in the main loop's thread: runs first, so that their frames are read at once."""
        node.replayed(inventory.replayed, inventory.refused)
        for task, used in inventory.running:
            self._go_on(node, task, used)
        for run in inventory.stored_runs:
            node.release(run)
        for run, found in inventory.foreign_runs:
            self._end_foreign(node, run, found)
        for task, generation in inventory.unforked:
            _take_in(node, *self.unforked(task, generation))
        self.bury(inventory, node)
        for task in inventory.spoolless:
            _take_in(node, self.state(task), [(e.SpoolGone(SPOOL_GONE), f"{task.id}.spoolless", datetime.now(UTC))])
        for task in inventory.waiting:
            self._wait_on(node, task)
        for task in inventory.ended:
            node.drop(task)
        for task_id in inventory.forgotten:
            node.complain_of_store(task_id)

    def bury(self, inventory: Inventory, node: Node) -> None:
        """Take in the runs that are proven dead."""
        for pid in inventory.survivors:
            node.complain_of_survivor(pid)
        for task in inventory.dead:
            if (text := self.left_state(task)) is not None:
                node.tasks.keep_state(task.id, text)
            self._bury(node, task)

    def judge_later(
        self, inventory: Inventory, scene: Scene, judge: Judge, node: Node, *, every: float, trouble: Recurring
    ) -> None:
        """Watch the leases of the doubtful ones in the background, and the forkservers that may still hold them."""
        Leftovers(
            node.loop,
            node.courier,
            judge,
            scene,
            frozenset(task.id for task in inventory.doubtful),
            every=every,
            on_lost=node.judged_lost,
            on_dead=partial(self.bury, node=node),
            trouble=trouble,
        ).begin()

    def _go_on(self, node: Node, task: TaskSnapshot, used: float) -> None:
        state = self.state(task, used=used, pid=node.processes.pid_of(task.run))
        node.take_in(state, [])
        node.tasks.feed(task.id, e.TakenOver(), f"{task.run}.takeover")
        node.processes.read(task.run)

    def _bury(self, node: Node, task: TaskSnapshot) -> None:
        node.processes.end_group(task.run)
        state, happened = self.dead(task)
        if state.has_process:  # its remains have told the bound of its log, which nobody has looked at since
            node.processes.logs.begin(task.run, state.options.log_max)
        _take_in(node, state, happened)

    def _wait_on(self, node: Node, task: TaskSnapshot) -> None:
        node.take_in(self.state(task), [])
        node.intake.enqueue(task.id)

    def _end_foreign(self, node: Node, run: str, found: TaskSnapshot | None) -> None:
        """Somebody judged or changed the task while its worker lived on here."""
        if found is None or found.run != run or found.id in node.tasks:
            node.processes.abandon(run)
            return
        state = self.state(found, pid=node.processes.pid_of(run))
        node.take_in(replace(state, phase=Phase.LIVE), [])
        node.processes.read(run)
        node.desync(found.id, f"it was called {found.status} while its worker lived on here")

    def state(self, task: TaskSnapshot, *, used: float = 0.0, pid: int | None = None, memo: Any = None) -> TaskState:
        """A task of the store as this term's; the limits of a run are those that it was started with."""
        memo = self._memos.get(task.run) if memo is None else memo
        return TaskState(
            task=replace(task, lease_owner=self._term),
            options=options_of(memo),
            term=self._term,
            epoch=self._epoch,
            stored_version=task.version,
            used=used,
            pid=pid,
        )

    def unforked(self, task: TaskSnapshot, generation: int) -> tuple[TaskState, list[Happened]]:
        """It was stored as starting, but no forkserver was ever asked: back to the queue.

        The one that vouches for that, of this generation, has to be there until it is stored.
        """
        state = replace(self.state(task), phase=Phase.SPAWNING, generation=generation)
        return state, [(e.ForkserverLost(), f"{task.run}.unforked", datetime.now(UTC))]

    def dead(self, task: TaskSnapshot) -> tuple[TaskState, list[Happened]]:
        """Its worker is dead: what remains of it decides, and without remains nobody can know."""
        remains = read_remains(self._paths.run_dir(task.run))
        if remains is None:
            return self.state(task), [(e.HolderDead(BOTH_DEAD), f"{task.run}.dead", datetime.now(UTC))]
        # Without `started` among what it said, a run that the store has as starting never ran user code.
        phase = Phase.FORKED if task.started_at is None else Phase.LIVE
        state = replace(
            self.state(task, memo=remains.memo),
            phase=phase,
            given_up=phase is Phase.FORKED,
            timed_out=_was_timed_out(task),
        )
        return state, _replay(task, remains, self._paths.run_dir(task.run))

    def left_state(self, task: TaskSnapshot) -> str | None:
        """The newest `state` that nobody had read, as JSON text: the next attempt gets it."""
        run_dir = self._paths.run_dir(task.run)
        remains = read_remains(run_dir)
        found = None
        for data in () if remains is None else remains.frames:
            try:
                frame = decode_up(data)
                text = state_of(frame, run_dir) if frame.kind is Up.CHECKPOINT else None
            except ProtocolError:
                break
            found = found if text is None else text
        return found


def _take_in(node: Node, state: TaskState, happened: list[Happened]) -> None:
    node.take_in(state, [])
    for what, event_id, at in happened:
        node.tasks.feed(state.task.id, what, event_id, at)


def _was_timed_out(task: TaskSnapshot) -> bool:
    return task.status is Status.STOPPING and task.stop is None


def _replay(task: TaskSnapshot, remains: Remains, run_dir: Path) -> list[Happened]:
    happened: list[Happened] = []
    for data in remains.frames:
        try:
            frame = decode_up(data)
            what = interpret(frame, run_dir)
            if not isinstance(what, e.Ready | e.Answered):
                happened.append((what, f"{task.run}.{frame.number}", time_of(frame)))
        except ProtocolError as error:  # as on the wire: it fails the run
            junk = Failure(FailureKind.PROTOCOL, "protocol", str(error)[:500])
            happened.append((e.FailureArrived(junk), f"{task.run}.junk", remains.at))
            break
        if isinstance(what, e.ResultArrived | e.FailureArrived):
            break  # nothing behind a last word counts
    has_spoken = any(isinstance(what, e.ResultArrived | e.FailureArrived) for what, _, _ in happened)
    if remains.was_ended and not has_spoken:
        failure = Failure(FailureKind.CRASHED, ORPHANED, ORPHANED_TEXT)
        happened.append((e.FailureArrived(failure), f"{task.run}.orphaned", remains.at))
    end = ProcessEnd(remains.code, remains.signal, usage=remains.usage, oom=remains.oom)
    happened.append((e.Exited(end), f"{task.run}.exit", remains.at))
    return happened
