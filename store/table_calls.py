"""What methods over any SQL have in common: a named query, its values, its rows."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from chong.store.codec import Codec
from chong.store.contract import TaskStore
from chong.store.model import (
    HoldScope,
    SharedHold,
)

Clock = Callable[[], datetime]


_SCOPES = frozenset(map(str, HoldScope))
# Nothing in a store is older; a greater age would lead out of what some databases can count.
_OLDEST = timedelta(days=20_000)


def host_clock() -> datetime:
    return datetime.now(UTC)


def _is_known(row: Any) -> bool:
    return row["scope"] in _SCOPES and (row["scope"] != HoldScope.BUCKET or str(row["target"]).isdecimal())


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

    def __init__(self, dialect: Dialect) -> None:
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

    def _any_text(self, db: Any) -> contextlib.AbstractContextManager[object]:
        """Within it bytes that are no text are a fault of their value, not of the whole call."""
        del db
        return contextlib.nullcontext()

    def _rows(self, query: str, **values: Any) -> list[Any]:
        with self._reading() as db:
            return db.execute(self._queries[query], values).fetchall()

    def _rows_of_now(self, query: str, **values: Any) -> list[Any]:
        """As `_rows`, judged by a moment that does not lie before anything that is read."""
        return self._rows(query, **values)

    def _write(self, query: str, **values: Any) -> None:
        """One statement; `now` is a moment within its transaction, not one before the wait for others."""
        with self._writing() as db:
            db.execute(self._queries[query], values | {"now": self._now()})

    def _age(self, span: timedelta) -> Any:
        return self._codec.span_in(min(span, _OLDEST))

    def _holds(self, rows: Sequence[Any]) -> tuple[SharedHold, ...]:
        # Without any hold there is still the row with the revision. A later version may hold more than we know of.
        return tuple(self._codec.hold_from_row(row) for row in rows if _is_known(row))
