"""Why a save is refused: its verdict on the rows as they stand, the same over every database."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chong.store.codec import Row
from chong.store.errors import ConcurrencyConflict, Rebucketed, Refused, UniqueKeyTaken
from chong.store.ids import SHOWN, is_id
from chong.store.model import Save, TaskSnapshot
from chong.store.states import Status
from chong.store.table_calls import Database, Dialect

_LONGEST = 300
"""Characters of what a database says of a value."""

Verdict = Exception | None
"""None: it is written."""


def verdicts_of(saves: Sequence[Save], judge: Callable[[list[Save]], Mapping[str, Verdict]]) -> list[Verdict]:
    """In the order of the saves, by a `judge` that is given each task once and answers by its id.

    What has no id for itself is not taken to any judge: databases differ in what they take for one.
    """
    first: dict[str, Save] = {}
    for save in saves:
        first.setdefault(save.snapshot.id, save)
    strangers = {task_id: _nameless(task_id) for task_id in first if not is_id(task_id)}
    verdicts = strangers | dict(judge([save for task_id, save in first.items() if task_id not in strangers]))
    return [
        verdicts[save.snapshot.id]
        if first[save.snapshot.id] is save
        else ConcurrencyConflict(save.snapshot.id, "occurs twice in one batch")
        for save in saves
    ]


def _nameless(task_id: str) -> Verdict:
    return Refused(f"task {task_id[:SHOWN]!r}: cannot be stored: expected an id as chong makes them, got another text")


def is_in_place(db: Database, dialect: Dialect, save: Save, row: Row | None) -> bool:
    """Whether this very save was written before, and only its answer was lost; `row` is what the task is now.

    Raises ConcurrencyConflict, Refused or UniqueKeyTaken when it was not, and must not be written either.
    """
    conflict = conflict_of(save, row)
    if conflict is not None:
        if _was_written(db, dialect, save):
            return True
        raise conflict
    check_chain(save, row)
    _check_unique_key(db, dialect, save.snapshot)
    return False


def _was_written(db: Database, dialect: Dialect, save: Save) -> bool:
    snapshot = save.snapshot
    if not save.transitions:
        columns = dialect.codec.snapshot_to_columns(snapshot)
        return db.execute(dialect.queries["save_same"], columns).fetchone() is not None
    last = save.transitions[-1]
    found = db.execute(dialect.queries["save_event"], {"id": snapshot.id, "version": last.version}).fetchone()
    return found is not None and bool(found["event_id"] == last.event_id)


def _check_unique_key(db: Database, dialect: Dialect, snapshot: TaskSnapshot) -> None:
    if snapshot.unique_key is None or snapshot.status.is_final:
        return
    wanted = {"unique_key": snapshot.unique_key, "id": snapshot.id}
    holder = db.execute(dialect.queries["save_holder"], wanted).fetchone()
    if holder is not None:
        raise UniqueKeyTaken(snapshot.unique_key, holder["id"])


def unstorable(save: Save, error: Exception) -> Refused:
    """For a value that the database does not take."""
    return Refused(f"task {save.snapshot.id}: cannot be stored: {' '.join(str(error).split())[:_LONGEST]}")


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
