"""Writing a batch of saves to PostgreSQL: one round trip, and a verdict for each of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from chong.store.deployment import sole_row
from chong.store.errors import ConcurrencyConflict, Rebucketed, Refused
from chong.store.model import Save
from chong.store.saving import Verdict, check_buckets, is_chain, is_in_place, unstorable, verdicts_of
from chong.store.table_calls import Database, Dialect

# A key that was taken when a task was to be stored, and is free when the reason is looked for.
_TRIES = 5


def columns_of(saves: Sequence[Save], dialect: Dialect) -> dict[str, Any]:
    """The arrays of `save_rows` and `save_consequences`."""
    codec = dialect.codec
    rows = [codec.snapshot_to_columns(save.snapshot) | _expectations(save) for save in saves]
    steps = [codec.transition_to_columns(step, None) for save in saves for step in save.transitions]
    ends = [(save.snapshot.id, done.command_id, done.outcome, done.detail) for save in saves for done in save.completes]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "tail"}
    columns |= _transposed(
        "step", ("task", "version", "source", "target", "at", "actor", "event", "reason", "ended"), steps
    )
    columns |= _transposed("done", ("task", "command", "outcome", "detail"), ends)
    columns["lease_ttl"] = [None if save.lease is None else codec.span_in(save.lease.ttl) for save in saves]
    return columns


def _expectations(save: Save) -> dict[str, Any]:
    snapshot, lease = save.snapshot, save.lease
    return {
        "expect_version": save.expect_version,
        "expect_attempt": snapshot.attempt - (lease is not None),
        "has_trail": bool(save.transitions),
        "source": save.transitions[0].source if save.transitions else None,
        "owner": snapshot.lease_owner,
        "lease_term": None if lease is None else lease.term,
        "is_run": snapshot.status.is_run,
    }


def _transposed(prefix: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {f"{prefix}_{name}": [row[place] for row in rows] for place, name in enumerate(names)}


class SaveBatch:
    """The saves of one call; `writing` and `reading` give a transaction and a look."""

    def __init__(
        self,
        dialect: Dialect,
        writing: Callable[[], AbstractContextManager[Database]],
        reading: Callable[[], AbstractContextManager[Database]],
        num_buckets: int | None,
    ) -> None:
        self._dialect = dialect
        self._queries = dialect.queries
        self._writing = writing
        self._reading = reading
        self._num_buckets = num_buckets

    def write(self, saves: Sequence[Save]) -> list[Verdict]:
        return verdicts_of(saves, self._verdicts)

    def _verdicts(self, saves: Sequence[Save], tries: int = _TRIES) -> dict[str, Verdict]:
        try:
            written = self._written([save for save in saves if is_chain(save)])
        except (Refused, TypeError, ValueError, RecursionError) as error:
            # A value that cannot be stored refuses its own save, not those beside it.
            if len(saves) > 1:
                half = len(saves) // 2
                return self._verdicts(saves[:half], tries) | self._verdicts(saves[half:], tries)
            return {saves[0].snapshot.id: unstorable(saves[0], error)}
        left = [save for save in saves if save.snapshot.id not in written]
        return dict.fromkeys(written) | {save.snapshot.id: self._why_not(save, tries) for save in left}

    def _written(self, saves: Sequence[Save]) -> set[str]:
        if not saves:
            return set()
        columns = columns_of(saves, self._dialect) | {"num_buckets": self._num_buckets}
        with self._writing() as db:
            ids = {"ids": columns["id"]}
            db.execute(self._queries["save_lock_leases"], ids)
            db.execute(self._queries["save_lock_tasks"], ids)
            # In this order: a key is free within the batch that ends its holder.
            done = [db.execute(self._queries[query], columns) for query in ("save_update", "save_insert")]
        return {row["id"] for cursor in done for row in cursor.fetchall()}

    def _why_not(self, save: Save, tries: int) -> Verdict:
        task = save.snapshot.id
        try:
            with self._reading() as db:
                row = db.execute(self._queries["save_stored"], {"ids": [task]}).fetchone()
                if is_in_place(db, self._dialect, save, row):
                    return None
                recorded = sole_row(db.execute(self._queries["deployment"], {}).fetchone())["num_buckets"]
                check_buckets(save, recorded, self._num_buckets)
        except (ConcurrencyConflict, Rebucketed, Refused) as reason:
            return reason
        # What stood in the way has gone since.
        if tries:
            return self._verdicts([save], tries - 1)[task]
        return ConcurrencyConflict(task, "changes faster than it can be written")
