"""The store of several machines: one PostgreSQL database, whose clock judges all leases."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg import errors

from chong.store import postgres_schema
from chong.store.codec import Codec
from chong.store.columns import NATIVE
from chong.store.contract import OnUnreadable, ignore, refuse
from chong.store.errors import Refused, RightsMissing, StoreUnavailable
from chong.store.ids import is_id
from chong.store.model import Beat, Command, Save, TaskSnapshot
from chong.store.partitions import keep_months
from chong.store.postgres_address import parsed
from chong.store.postgres_bell import Bell
from chong.store.postgres_connection import Connection
from chong.store.postgres_pool import Acquaintance, Pool, Statements, Unhurried
from chong.store.postgres_saving import SaveBatch
from chong.store.queries import load_queries, with_percent
from chong.store.query import TaskQuery
from chong.store.states import Status
from chong.store.table_calls import Clock, Dialect
from chong.store.tables import TableStore

_AFTER_ALL = "\U0010ffff"
_LOWEST = "00000000-0000-0000-0000-000000000000"
_HIGHEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def dialect(now: str) -> Dialect:
    """`now`: what the clock is called in SQL."""
    queries = {name: with_percent(text) for name, text in load_queries("postgres", now=now).items()}
    return Dialect(queries, Codec(NATIVE), list)


SERVER_CLOCK = dialect("clock_timestamp()")


def check_address(address: str) -> None:
    """ConfigurationError for what cannot be an address, whether or not a server is there."""
    parsed(address)


class PostgresTaskStore(TableStore):
    """Connects at once, so that a wrong address is told before anything else happens.

    address: `postgresql://user@host:5432/database?option=value`, or libpq's `key=value` words.
    create: make or upgrade the tables where they are missing or older than this code.
    patient: a server that is away now is no error yet; each call tries again.
    deadline: seconds that a call may take, and that `close()` waits for calls under way.
    clock: for tests, in place of the server's.
    on_unreadable: hears of each row that a list goes without, see the contract.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock | None = None,
        create: bool = True,
        patient: bool = False,
        deadline: float = 5.0,
        on_unreadable: OnUnreadable = refuse,
    ) -> None:
        self._dialect = SERVER_CLOCK if clock is None else dialect(":now::timestamptz")
        super().__init__(self._dialect, on_unreadable)
        self._create = create
        self._deadline = deadline
        self._bells: list[Bell] = []
        self._parts = parts = parsed(address)
        known = Acquaintance()
        self._calls = Pool(parts, deadline=deadline, clock=clock, check=self._recognise, known=known)
        # A connection of their own: renewals wait for no other call of this process.
        self._renewals = Pool(parts, deadline=deadline, size=1, clock=clock, check=self._recognise, known=known)
        try:
            with self._calls.reading():
                pass
        except StoreUnavailable:
            if not patient:
                self.close()
                raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for bell in self._bells:
            bell.close()
        self._calls.close()
        self._renewals.close()

    def _recognise(self, connection: Connection) -> None:
        postgres_schema.recognise(connection, self._calls.label, create=self._create)

    def check_serving(self) -> None:
        with self._calls.connected() as connection:
            postgres_schema.check_serving(connection, self._calls.label)

    def _now(self) -> None:
        """The server's clock, or the one that stands in for it, is in every query."""

    def _reading(self) -> contextlib.AbstractContextManager[Statements]:
        return self._calls.reading()

    def _surveying(self) -> contextlib.AbstractContextManager[Statements]:
        return self._calls.surveying(self._queries["survey_isolation"], self._queries["limits"])

    def _writing(self) -> contextlib.AbstractContextManager[Statements]:
        return self._calls.writing(self._queries["limits_pipeline"])

    def _writing_long(self) -> contextlib.AbstractContextManager[Unhurried]:
        return self._calls.writing_long(self._queries["limits"])

    # --- tasks -------------------------------------------------------------------------------------------

    def save_many(self, saves: Sequence[Save], *, num_buckets: int | None = None) -> list[Exception | None]:
        if not saves:
            return []
        return SaveBatch(self._dialect, self._writing, self._reading, num_buckets).write(saves)

    def _found(self, part: str, limit: int) -> list[Any]:
        tail, rest = part[::-1], len(part)
        bounds = {"low": part + _LOWEST[rest:], "high": part + _HIGHEST[rest:]}
        if not (is_id(bounds["low"]) and is_id(bounds["high"])):
            # No beginning of an id, but it may be an end: a range without members.
            bounds = {"low": _HIGHEST, "high": _LOWEST}
        return self._rows("find", **bounds, tail=tail, tail_end=tail + _AFTER_ALL, limit=limit)

    def _render(self, query: TaskQuery) -> tuple[str, dict[str, Any]]:
        """Where one condition leads, newest first within each of its values, by its index; then the newest of those.

        Asked for several values at once, the planner walks all tasks by id wherever it takes the values for common: up
        to the last one, if nothing has them.
        """
        text, values = super()._render(query)
        leading = _leading(query)
        if leading is None:
            return text, values
        others = [name for name in values if name not in {leading, "limit"}]
        return self._selected(f"query_by_{leading}", others), values

    def upkeep(self) -> None:
        with self._calls.connected() as connection:
            try:
                keep_months(connection)
            except errors.InsufficientPrivilege as error:
                raise RightsMissing(
                    f"store {self._calls.label}: {error.diag.message_primary}; expected the role that owns chong's "
                    "tables, to make and drop the months of the trail, got another one"
                ) from error

    # --- leases ------------------------------------------------------------------------------------------

    def _renew(self, term: str, ids: Sequence[str], ttl: timedelta) -> set[str]:
        with self._renewals.writing(self._queries["limits_pipeline"]) as db:
            missing = db.execute(self._queries["renew"], {"term": term, "ids": list(ids), "ttl": ttl})
        return {row["id"] for row in missing.fetchall()}

    def touch(self, term: str, beats: Sequence[Beat]) -> None:
        rows, refused = self._codec.beats_to_columns(beats, term)
        refused = self._touch(term, rows) or refused
        # Last: one task's bad number must not hide the others' heartbeats.
        if refused:
            raise Refused(refused)

    def _touch(self, term: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
        """Write what can be written; gives what is wrong with the last one that cannot."""
        if not rows:
            return None
        columns = {name: [row[name] for row in rows] for name in ("task_id", "heartbeat_at", "progress", "usage")}
        try:
            self._write("touch", term=term, **columns)
        except Refused as error:
            if len(rows) == 1:
                return f"task {rows[0]['task_id']}: {error}"
            half = len(rows) // 2
            first = self._touch(term, rows[:half])
            return self._touch(term, rows[half:]) or first
        return None

    def adopt(
        self, old_term: str, new_term: str, ids: Iterable[str], ttl: timedelta, event_id: str
    ) -> list[TaskSnapshot]:
        values = {"old_term": old_term, "new_term": new_term, "ids": self._ids(ids), "ttl": ttl, "event_id": event_id}
        return self._handed("adopt_lock", "adopt", "adopt_commands", "adopt_done", values=values)

    def expire(self, ids: Iterable[str], event_id: str, *, actor: str, reason: str | None = None) -> list[TaskSnapshot]:
        values = {
            "ids": self._ids(ids),
            "event_id": event_id,
            "actor": actor,
            "reason": reason,
            "lost": Status.LOST.value,
        }
        return self._handed("expire_lock", "expire", "expire_commands", "expire_done", values=values)

    def _handed(self, *queries: str, values: Mapping[str, Any]) -> list[TaskSnapshot]:
        """Run them in one transaction; gives the tasks that the last one names. What cannot be read is written, too."""
        with self._writing() as db:
            *_, done = [db.execute(self._queries[query], values) for query in queries]
        return self._readable(self._codec.snapshot_from_row, done.fetchall())

    # --- commands ----------------------------------------------------------------------------------------

    def _submit(self, command: Command) -> bool:
        with self._writing() as db:
            known = db.execute(self._queries["submit_command"], self._codec.command_to_columns(command))
        return bool(known.fetchall())

    def bell(self, node: str) -> Bell:
        made = Bell(self._parts, node, deadline=self._deadline)
        self._bells.append(made)
        return made

    def claim_commands(
        self, node: str, term: str, *, lease: timedelta, limit: int = 100, on_unreadable: OnUnreadable = ignore
    ) -> list[Command]:
        with self._writing() as db:
            claimed = db.execute(
                self._queries["claim_commands"], {"node": node, "term": term, "ttl": lease, "limit": limit}
            )
        found, faults = self._codec.commands_from_rows(claimed.fetchall())
        for row, fault in faults:
            # If it fails: the next claim finds that row again, and those who can be read must not wait for it.
            with contextlib.suppress(StoreUnavailable):
                self._write("claim_commands_refuse", id=row["id"], detail=str(fault))
                on_unreadable(fault)
        return found


def _leading(query: TaskQuery) -> str | None:
    """The condition whose index has the most to say: None where another one than these does, such as a key."""
    if query.ids is not None:
        return None
    if query.is_open:
        return "open"
    if query.tags or query.key is not None or query.since is not None:
        return None
    if query.names:
        return "names"
    if query.buckets:
        return "buckets"
    return "statuses" if query.statuses and query.node is None else None
