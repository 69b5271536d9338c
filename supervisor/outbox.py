"""What the store has not got yet, in the order in which it happened.

Kept by the main loop. A batch is taken for the store thread, written there, and settled here; what could not be
written because the store was away is offered again, unchanged, so that an event id already in place is found.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from chong.store.errors import Refused
from chong.store.model import Beat, Completion, LeaseGrant, Note, Save
from chong.supervisor.events import SaveState
from chong.supervisor.unsent import Unsent, unsent_of

BOUND = 100_000
BATCH = 200


@dataclass(slots=True)
class Batch:
    """One round trip's worth of writes; the verdicts are filled in by the store thread."""

    saves: list[Save] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    verdicts: list[Exception | None] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.saves or self.notes or self.completions or self.beats)


class Outbox:
    """Per task a queue of saves, the first of which may be under way; beside them notes, command ends and beats."""

    def __init__(self, lease: LeaseGrant) -> None:
        self._lease = lease
        self._saves: dict[str, deque[Save]] = {}
        self._out: set[str] = set()
        """Tasks whose first save was handed out; it must be repeated unchanged if the store was away."""
        self._stored: dict[str, int] = {}
        self._notes: deque[Note] = deque()
        self._completions: deque[Completion] = deque()
        self._beats: dict[str, Beat] = {}
        self._size = 0
        self._unspooled: dict[str, Unsent] = {}
        self._spooled: set[str] = set()
        self._needless: list[str] = []
        """Spooled, and not to be sent any more."""

    def __len__(self) -> int:
        """How many writes wait; beats do not count, only a task's latest is kept."""
        return self._size + len(self._notes) + len(self._completions)

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._beats)

    def has(self, task_id: str) -> bool:
        """Whether a save of the task waits or is under way."""
        return task_id in self._saves

    def make_room(self) -> None:
        """Refused when no more work can be taken on."""
        if len(self) >= BOUND:
            raise Refused(f"outbox: expected fewer than {BOUND} unsent writes, the store has been away too long")

    def know_stored(self, task_id: str, version: int) -> None:
        """The store has the task at this version, read or adopted from it."""
        self._stored[task_id] = version

    def add(self, save: SaveState) -> None:
        """Queue a state; it joins the last one that is not under way yet."""
        task_id = save.snapshot.id
        waiting = self._saves.setdefault(task_id, deque())
        new = Save(
            snapshot=save.snapshot,
            transitions=save.transitions,
            expect_version=waiting[-1].snapshot.version if waiting else self._stored.get(task_id, 0),
            lease=self._lease if save.starts else None,
            completes=save.completes,
        )
        if len(waiting) > (task_id in self._out) and new.lease is None:
            self._size -= 1
            new = _joined(waiting.pop(), new)
        waiting.append(new)
        self._size += 1
        self._is_new(new)

    def add_note(self, note: Note) -> None:
        self._notes.append(note)
        self._is_new(note)

    def add_completion(self, completion: Completion) -> None:
        self._completions.append(completion)

    def add_beat(self, beat: Beat) -> None:
        """Of each part of a beat the newest is kept."""
        earlier = self._beats.get(beat.task_id)
        self._beats[beat.task_id] = beat if earlier is None else _merged(earlier, beat)

    def take_unspooled(self) -> list[Unsent]:
        """The saves and notes that wait and that the spool has not got as they are now."""
        found = list(self._unspooled.values())
        self._spooled.update(self._unspooled)
        self._unspooled.clear()
        return found

    def put_back_unspooled(self, unsent: Iterable[Unsent]) -> None:
        """The disk did not take these: they go there at the next occasion, if they still wait as they are."""
        for each in unsent:
            if each.id in self._spooled and each.id not in self._unspooled:
                self._spooled.discard(each.id)
                self._unspooled[each.id] = each

    def take_needless(self) -> list[str]:
        """What the spool need not have any more."""
        found, self._needless = self._needless, []
        return found

    def know_spooled(self, ids: Iterable[str]) -> None:
        """A former term had left these, and this one has sent them."""
        self._needless += ids

    def take(self, *, beats: bool) -> Batch:
        """The next writes, at most one per task and `BATCH` in all; only one batch may be out at a time."""
        batch = Batch()
        for waiting in self._saves.values():
            if len(batch.saves) >= BATCH:
                break
            batch.saves.append(waiting[0])
        batch.notes = list(islice(self._notes, BATCH))
        batch.completions = list(islice(self._completions, BATCH))
        if beats:
            batch.beats = list(self._beats.values())
            self._beats = {}
        else:  # the last words of a run go with its end: there is no lease to write them to afterwards
            ends = [save.snapshot.id for save in batch.saves if not save.snapshot.status.is_run]
            batch.beats = [self._beats.pop(task_id) for task_id in ends if task_id in self._beats]
        self._out.update(save.snapshot.id for save in batch.saves)
        return batch

    def put_back(self, batch: Batch) -> None:
        """The store was away: nothing is lost, a beat only if a newer one has come."""
        for beat in batch.beats:
            newer = self._beats.get(beat.task_id)
            self._beats[beat.task_id] = beat if newer is None else _merged(beat, newer)

    def settle(self, batch: Batch) -> None:
        """The batch was written; refused saves are dropped with all that was to follow them."""
        for save, verdict in zip(batch.saves, batch.verdicts, strict=True):
            task_id = save.snapshot.id
            if save is not next(iter(self._saves.get(task_id, ())), None):
                continue  # the task was given up while its save was under way
            self._out.discard(task_id)
            if verdict is None:
                self._sent(save)
            else:
                self.give_up(task_id)
        for _ in batch.notes:
            self._is_done(self._notes.popleft())
        for _ in batch.completions:
            self._completions.popleft()
        # Fairness: tasks with more to say go behind those that have not had their turn.
        for save in batch.saves:
            if save.snapshot.id in self._saves:
                self._saves[save.snapshot.id] = self._saves.pop(save.snapshot.id)

    def give_up(self, task_id: str) -> None:
        """Stop writing a task: somebody else does."""
        given_up = self._saves.pop(task_id, ())
        self._size -= len(given_up)
        for save in given_up:
            self._is_done(save)
        self._out.discard(task_id)
        self._stored.pop(task_id, None)
        self._beats.pop(task_id, None)

    def forget(self, task_id: str) -> None:
        """The final state is stored, nothing more will come."""
        self._stored.pop(task_id, None)
        self._beats.pop(task_id, None)

    def _sent(self, save: Save) -> None:
        task_id = save.snapshot.id
        waiting = self._saves[task_id]
        self._is_done(waiting.popleft())
        self._size -= 1
        self._stored[task_id] = save.snapshot.version
        if not waiting:
            del self._saves[task_id]
        if not save.snapshot.status.is_run:
            self._beats.pop(task_id, None)

    def _is_new(self, write: Save | Note) -> None:
        unsent = unsent_of(write)
        self._unspooled[unsent.id] = unsent

    def _is_done(self, write: Save | Note) -> None:
        id_ = unsent_of(write).id
        self._unspooled.pop(id_, None)
        if id_ in self._spooled:
            self._spooled.discard(id_)
            self._needless.append(id_)


def _merged(earlier: Beat, later: Beat) -> Beat:
    return Beat(
        later.task_id,
        later.heartbeat_at or earlier.heartbeat_at,
        later.progress or earlier.progress,
        later.usage or earlier.usage,
    )


def _joined(earlier: Save, later: Save) -> Save:
    return Save(
        snapshot=later.snapshot,
        transitions=earlier.transitions + later.transitions,
        expect_version=earlier.expect_version,
        lease=earlier.lease,
        completes=earlier.completes + later.completes,
    )
