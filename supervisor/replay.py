"""What a former term could not write, and had left in the spool, goes to the store before anything is judged by it."""

from dataclasses import replace

from chong.store.buckets import BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import ConcurrencyConflict, Rebucketed, Refused
from chong.store.model import Note, Save
from chong.supervisor.inventory import Inventory
from chong.supervisor.outbox import BATCH
from chong.supervisor.scene import Scene
from chong.supervisor.unsent import in_rounds


def replay(store: TaskStore, scene: Scene, inventory: Inventory) -> None:
    """In the store's thread; may be called again after an outage, as each write is found in place then.

    The start of a run is left out, with what follows it: nothing was forked before it was stored. Where the spool is
    behind, new tasks are left out: they may have run and been forgotten since.
    """
    given_up = set()
    policy = BucketPolicy(inventory.num_buckets)
    for saves in in_rounds(each.write for each in scene.unsent if isinstance(each.write, Save)):
        wanted = []
        for save in saves:
            if save.lease is not None or (scene.is_behind and save.expect_version == 0):
                given_up.add(save.snapshot.id)
            elif save.snapshot.id not in given_up:
                wanted.append(_counted_anew(save, policy) if save.expect_version == 0 else save)
        for first in range(0, len(wanted), BATCH):
            part = wanted[first : first + BATCH]
            verdicts = store.save_many(part, num_buckets=inventory.num_buckets)
            for save, verdict in zip(part, verdicts, strict=True):
                if isinstance(verdict, Rebucketed):
                    raise verdict
                if verdict is not None:
                    given_up.add(save.snapshot.id)
                    _too_late(store, scene, inventory, save, verdict)
    for each in scene.unsent:
        if isinstance(each.write, Note):
            _append(store, each.write)
    inventory.replayed = [each.id for each in scene.unsent]


def _counted_anew(save: Save, policy: BucketPolicy) -> Save:
    """A new task's bucket by the number that counts now: nobody has seen it, so no rebucket could do that."""
    key = save.snapshot.bucket_key
    return save if key is None else replace(save, snapshot=replace(save.snapshot, bucket=policy.bucket_of(key)))


def _too_late(store: TaskStore, scene: Scene, inventory: Inventory, save: Save, verdict: Exception) -> None:
    inventory.refused.append((save, verdict))
    found = store.get(save.snapshot.id)
    if isinstance(verdict, ConcurrencyConflict) and found is not None:
        last = save.transitions[-1]
        _append(
            store,
            Note(
                task_id=found.id,
                kind="late_result",
                at=last.at,
                actor=scene.term.term,
                event_id=f"{last.event_id}.unsent",
                detail=f"version {last.version}, {last.target}, was not stored in time: the task is {found.status}",
            ),
        )


def _append(store: TaskStore, note: Note) -> None:
    try:
        store.append([note])
    except Refused:
        return  # no store takes it; it is in the log of the term that wrote it
