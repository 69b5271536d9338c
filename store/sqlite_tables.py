"""SQLite's part of the contract: one writer at a time, so that whatever a transaction reads stands until its end."""

import contextlib
import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from chong.store.codec import Codec, judged_from_row
from chong.store.columns import MICROSECONDS, to_json
from chong.store.contract import OnUnreadable, ignore
from chong.store.errors import Refused
from chong.store.model import Beat, Command, Save, TaskSnapshot
from chong.store.queries import load_queries
from chong.store.sqlite_saving import SaveBatch
from chong.store.sqlite_session import Session, primary_code
from chong.store.states import Status
from chong.store.table_calls import Clock, Dialect, host_clock, sorted_out
from chong.store.tables import TableStore

_AFTER_ALL = "\U0010ffff"


def _as_json(values: Iterable[Any]) -> str:
    return to_json(list(values))


DIALECT = Dialect(load_queries("sqlite"), Codec(MICROSECONDS), _as_json)


class SqliteTables(TableStore):
    """Every method of the contract, on the connection of `_session()`."""

    PRUNED = ("tags", *TableStore.PRUNED)

    def __init__(self, clock: Clock | None, on_unreadable: OnUnreadable) -> None:
        super().__init__(DIALECT, on_unreadable)
        self._clock = clock or host_clock

    @abstractmethod
    def _session(self) -> Session:
        """The connection that this call may use."""

    def _now(self) -> int:
        return int(self._codec.moment_in(self._clock()))

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._session().reading()

    def _surveying(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._session().surveying()

    def _writing(self, *, is_urgent: bool = False) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """A transaction; an urgent one is not made to wait for upkeep."""
        del is_urgent
        return self._session().writing()

    def _rows_of_now(self, query: str, **values: Any) -> list[Any]:
        with self._surveying() as db:
            return self._fetched(db, self._queries[query], values | {"now": self._now()})

    def _fetched(self, db: Any, text: str, values: Mapping[str, Any]) -> list[Any]:
        try:
            return super()._fetched(db, text, values)
        except sqlite3.OperationalError as error:
            if primary_code(error):
                raise
            # Not SQLite's but Python's: bytes that are no text. Once more, as whoever reads the rows names them then.
            db.text_factory = _lenient_text
            try:
                return super()._fetched(db, text, values)
            finally:
                db.text_factory = str

    def save_many(self, saves: Sequence[Save], *, num_buckets: int | None = None) -> list[Exception | None]:
        if not saves:
            return []
        with self._writing() as db:
            return SaveBatch(db, DIALECT, self._now(), num_buckets).write(saves)

    def _found(self, part: str, limit: int) -> list[Any]:
        tail = part[::-1]
        bounds = {"part": part, "part_end": part + _AFTER_ALL, "tail": tail, "tail_end": tail + _AFTER_ALL}
        return self._rows("find", **bounds, limit=limit)

    def check_serving(self) -> None:
        """Nothing: whoever has opened it may write to it."""

    def upkeep(self) -> None:
        """Nothing: whoever writes moves the log into the database."""

    def _renew(self, term: str, ids: Sequence[str], ttl: timedelta) -> set[str]:
        values = {"term": term, "ids": _as_json(ids), "ttl": self._codec.span_in(ttl)}
        with self._writing(is_urgent=True) as db:
            values["now"] = self._now()
            db.execute(self._queries["renew"], values)
            db.execute(self._queries["renew_node"], values)
            return {row["value"] for row in db.execute(self._queries["renew_missing"], values).fetchall()}

    def touch(self, term: str, beats: Sequence[Beat]) -> None:
        rows, refused = self._codec.beats_to_columns(beats, term)
        if rows:
            with self._writing() as db:
                db.executemany(self._queries["touch"], rows)
        # Last: one task's bad number must not hide the others' heartbeats.
        if refused:
            raise Refused(refused)

    def adopt(
        self, old_term: str, new_term: str, ids: Iterable[str], ttl: timedelta, event_id: str
    ) -> list[TaskSnapshot]:
        values = {"old_term": old_term, "new_term": new_term, "event_id": event_id, "ids": self._ids(ids)}
        with self._writing() as db:
            now = self._now()
            grant = {"new_term": new_term, "now": now, "ttl": self._codec.span_in(ttl)}
            for row in db.execute(self._queries["adopt"], values).fetchall():
                task = {"id": row["task_id"]}
                db.execute(self._queries["adopt_lease"], task | grant)
                db.execute(self._queries["adopt_task"], task)
                db.execute(self._queries["append"], _adopted(row["task_id"], old_term, new_term, event_id, now))
            db.execute(self._queries["adopt_commands"], values)
            done = self._done(db, "adopt_done", values)
        return self._readable(self._codec.snapshot_from_row, done)

    def expire(self, ids: Iterable[str], event_id: str, *, actor: str, reason: str | None = None) -> list[TaskSnapshot]:
        values = {"ids": self._ids(ids), "event_id": event_id, "lost": Status.LOST}
        with self._writing() as db:
            now = self._now()
            judged, faults = sorted_out(
                judged_from_row, self._fetched(db, self._queries["expire"], values | {"now": now})
            )
            for task_id, version, status in judged:
                end = {"id": task_id, "version": version + 1, "now": now, "lost": Status.LOST}
                step = (task_id, version + 1, status, Status.LOST, now, actor, event_id, reason, None, now)
                db.execute(self._queries["expire_task"], end)
                db.execute(self._queries["save_transition"], step)
                db.execute(self._queries["save_end_lease"], {"id": task_id})
            db.execute(self._queries["expire_commands"], values | {"now": now})
            done = self._done(db, "expire_done", values)
        # Behind the transaction: who hears of them may raise, and what was written of the others stands.
        for fault in faults:
            self._on_unreadable(fault)
        return self._readable(self._codec.snapshot_from_row, done)

    def _submit(self, command: Command) -> bool:
        columns = self._codec.command_to_columns(command)
        with self._writing() as db:
            if db.execute(self._queries["submit_command_done"], columns).fetchone() is not None:
                return True
            return db.execute(self._queries["submit_command"], columns | {"now": self._now()}).rowcount > 0

    def claim_commands(
        self, node: str, term: str, *, lease: timedelta, limit: int = 100, on_unreadable: OnUnreadable = ignore
    ) -> list[Command]:
        # Polled all the time and mostly in vain: look first, without the write lock.
        if not self._rows("claim_commands", node=node, now=self._now(), limit=1):
            return []
        with self._writing() as db:
            now = self._now()
            open_ones = db.execute(self._queries["claim_commands"], {"node": node, "now": now, "limit": limit})
            claim = {"numbers": _as_json(row["number"] for row in open_ones.fetchall()), "now": now}
            span = {"term": term, "ttl": self._codec.span_in(lease)}
            db.execute(self._queries["claim_commands_lease"], claim | span)
            rows = self._fetched(db, self._queries["claim_commands_read"], claim)
            found, faults = self._codec.commands_from_rows(rows)
            for row, fault in faults:
                refusal = {"number": row["number"], "detail": str(fault), "now": now}
                db.execute(self._queries["claim_commands_refuse"], refusal)
        for _, fault in faults:
            on_unreadable(fault)
        return found

    def _done(self, db: sqlite3.Connection, query: str, values: Mapping[str, Any]) -> list[Any]:
        """The rows of tasks, as they stand now, that an event has written, in this call or in an earlier one."""
        ids = [row["task_id"] for row in db.execute(self._queries[query], values).fetchall()]
        return self._fetched(db, self._queries["get_many"], {"ids": _as_json(ids)})


def _lenient_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _adopted(task_id: str, old_term: str, new_term: str, event_id: str, now: int) -> dict[str, Any]:
    """The note of an adoption, by which a repeated call knows its own work."""
    return {
        "task_id": task_id,
        "kind": "adopted",
        "at": now,
        "actor": new_term,
        "event_id": event_id,
        "detail": f"from {old_term}",
        "now": now,
    }
