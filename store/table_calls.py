"""What methods over any SQL have in common: a named query, its values, its rows."""

import contextlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from chong.store.codec import Codec
from chong.store.contract import OnUnreadable, TaskStore
from chong.store.errors import UnreadableRow
from chong.store.ids import is_id
from chong.store.model import (
    HoldScope,
    SharedHold,
)

Clock = Callable[[], datetime]
T = TypeVar("T")


_BUCKET = re.compile("[0-9]{1,5}")
"""As long as the number of the last bucket that there may be."""
_SCOPES = frozenset(map(str, HoldScope))
# Nothing in a store is older; a greater age would lead out of what some databases can count.
_OLDEST = timedelta(days=20_000)


def host_clock() -> datetime:
    return datetime.now(UTC)


def _is_known(hold: SharedHold) -> bool:
    return hold.scope is not HoldScope.BUCKET or _BUCKET.fullmatch(hold.target) is not None


def sorted_out(read: Callable[[Any], T], rows: Iterable[Any]) -> tuple[list[T], list[UnreadableRow]]:
    """What can be read, and what is wrong with the others."""
    found, faults = [], []
    for row in rows:
        try:
            found.append(read(row))
        except UnreadableRow as fault:
            faults.append(fault)
    return found, faults


class Cursor(Protocol):
    """What a statement gave; the count of a statement that writes is known when its transaction has ended."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Database(Protocol):
    """A connection within a call; rows are read by column name."""

    def execute(self, query: str, values: Mapping[str, Any], /) -> Cursor: ...

    def executemany(self, query: str, rows: Iterable[Mapping[str, Any]], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database is spoken to: its queries by name, its values, and how a list is passed to it."""

    queries: Mapping[str, str]
    codec: Codec
    array: Callable[[Iterable[Any]], Any]


class TableCalls(TaskStore):
    """Calls of a store whose contract is spread over several classes."""

    def __init__(self, dialect: Dialect, on_unreadable: OnUnreadable) -> None:
        self._on_unreadable = on_unreadable
        self._queries = dialect.queries
        self._codec = dialect.codec
        self._array = dialect.array

    @abstractmethod
    def _now(self) -> Any:
        """The moment for a call's columns; None where the database takes its own."""

    @abstractmethod
    def _reading(self) -> contextlib.AbstractContextManager[Database]:
        """A call that writes nothing."""

    @abstractmethod
    def _surveying(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction that writes nothing, and reads everything as it stood at one moment."""

    @abstractmethod
    def _writing(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction."""

    def _writing_long(self) -> contextlib.AbstractContextManager[Database]:
        """A transaction in which each statement may take as long as a whole call."""
        return self._writing()

    def _fetched(self, db: Any, text: str, values: Mapping[str, Any]) -> list[Any]:
        """The rows of a look, in which whatever is no value for Python is a fault of its row, not of the whole call."""
        rows: list[Any] = db.execute(text, values).fetchall()
        return rows

    def _rows(self, query: str, **values: Any) -> list[Any]:
        with self._reading() as db:
            return self._fetched(db, self._queries[query], values)

    def _readable(self, read: Callable[[Any], T], rows: Iterable[Any], *, whole: bool = False) -> list[T]:
        """What can be read of a list; the others are told, or, where the list is wanted whole, raised."""
        found, faults = sorted_out(read, rows)
        for fault in faults:
            if whole:
                raise fault
            self._on_unreadable(fault)
        return found

    def _rows_of_task(self, query: str, task_id: str) -> list[Any]:
        """What is no id is the id of no task."""
        return self._rows(query, id=task_id) if is_id(task_id) else []

    def _ids(self, ids: Iterable[str]) -> Any:
        """A list of tasks' ids for the database, without what is none."""
        return self._array(filter(is_id, ids))

    def _rows_of_now(self, query: str, **values: Any) -> list[Any]:
        """As `_rows`, judged by a moment that does not lie before anything that is read."""
        return self._rows(query, **values)

    def _write(self, query: str, **values: Any) -> None:
        """One statement; `now` is a moment within its transaction, not one before the wait for others."""
        with self._writing() as db:
            db.execute(self._queries[query], values | {"now": self._now()})

    def _age(self, span: timedelta) -> Any:
        return self._codec.span_in(min(span, _OLDEST))

    def _in_part(self, read: Callable[[Any, OnUnreadable], T], rows: Iterable[Any]) -> list[T]:
        """A list that goes without nobody: each with what can be read of it, the rest is told."""
        return [read(row, self._on_unreadable) for row in rows]

    def _holds(self, rows: Sequence[Any]) -> tuple[SharedHold, ...]:
        # Without any hold there is still the row with the revision. A later version may hold more than we know of.
        known = (row for row in rows if row["scope"] in _SCOPES)
        holds = (self._codec.hold_from_row(row, self._on_unreadable) for row in known)
        return tuple(hold for hold in holds if _is_known(hold))
