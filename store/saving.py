"""Why a save is refused: its verdict on the rows as they stand, the same over every database."""

from collections.abc import Mapping
from typing import Any

from chong.store.codec import Row
from chong.store.errors import ConcurrencyConflict, Rebucketed, Refused
from chong.store.model import Save
from chong.store.states import Status


def _is_newer(save: Save, row: Row | None) -> ConcurrencyConflict | None:
    stored = 0 if row is None else row["version"]
    if stored == save.expect_version:
        return None
    return ConcurrencyConflict(save.snapshot.id, f"version {stored} is stored, {save.expect_version} was expected")


def conflict_of(save: Save, row: Row | None) -> ConcurrencyConflict | None:
    """Why the stored row is not the one that this save builds upon, None when it is."""
    conflict = _is_newer(save, row)
    if conflict is not None or row is None:
        return conflict
    snapshot = save.snapshot
    if Status(row["status"]).is_final:
        return ConcurrencyConflict(snapshot.id, f"is {row['status']} already")
    expected = snapshot.attempt - (save.lease is not None)
    if row["attempt"] != expected:
        return ConcurrencyConflict(snapshot.id, f"attempt {row['attempt']} is stored, {expected} was expected")
    if row["has_lease"] and row["term"] != snapshot.lease_owner:
        return ConcurrencyConflict(snapshot.id, f"its lease is held by {row['term']}, not by {snapshot.lease_owner}")
    return None


def check_buckets(save: Save, recorded: int | None, ours: int | None) -> None:
    """Rebucketed for a new task whose bucket was computed by another number than the recorded one."""
    is_new = save.expect_version == 0 and save.snapshot.bucket is not None
    if is_new and recorded is not None and ours is not None and recorded != ours:
        raise Rebucketed(recorded, ours)


def is_chain(save: Save) -> bool:
    """Whether a trail leads somewhere without a gap, wherever it begins."""
    source = {"status": save.transitions[0].source} if save.transitions and save.transitions[0].source else None
    try:
        check_chain(save, source)
    except Refused:
        return False
    return True


def check_chain(save: Save, row: Row | Mapping[str, Any] | None) -> None:
    """Refuse a trail with a gap: the next writer could no longer tell what happened in between."""
    snapshot = save.snapshot
    if snapshot.version <= save.expect_version:
        raise Refused(f"task {snapshot.id}: version {snapshot.version} does not follow {save.expect_version}")
    if not save.transitions:
        return
    status = None if row is None else Status(row["status"])
    version = save.expect_version
    for step in save.transitions:
        if step.task_id != snapshot.id or step.source != status or step.version <= version:
            raise Refused(
                f"task {snapshot.id}: {step.source} to {step.target} at version {step.version} "
                f"does not follow {status} at version {version}"
            )
        status, version = step.target, step.version
    if (status, version) != (snapshot.status, snapshot.version):
        raise Refused(f"task {snapshot.id}: its transitions end at {status}, version {version}")
