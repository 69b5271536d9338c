"""The months by which a PostgreSQL store cuts its trail: an id begins with its time, so a range of ids is a month.

`transitions_rest` takes what no month was made for. Nothing is refused for want of a partition, and what lies there by
the time its month is made moves over.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from psycopg import errors, sql

from chong.store.postgres_connection import Connection
from chong.store.queries import load_queries, with_percent

AHEAD = 2
"""Months that are made before they begin."""

LOCK_WAIT = "200ms"
"""How long a lock of the trail is waited for: whoever writes or reads it waits behind. The next upkeep tries again."""

STANDSTILL = "2s"
"""How long the server lets a transaction with that lock wait for its next statement: its client may be frozen."""

_QUERIES = {name: sql.SQL(cast("Any", with_percent(text))) for name, text in load_queries("postgres_months").items()}


@dataclass(frozen=True, slots=True, order=True)
class Month:
    year: int
    month: int

    @classmethod
    def of(cls, moment: datetime) -> "Month":
        return cls(moment.year, moment.month)

    @property
    def next(self) -> "Month":
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def table(self) -> str:
        return f"transitions_{self.year:04}_{self.month:02}"

    @property
    def first_id(self) -> str:
        """The smallest id that a task of this month can have: UUIDv7 begins with milliseconds since 1970."""
        begun = int(datetime(self.year, self.month, 1, tzinfo=UTC).timestamp() * 1000)
        digits = f"{begun:012x}"
        return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def months_ahead(now: datetime) -> Iterator[Month]:
    month = Month.of(now)
    for _ in range(AHEAD + 1):
        yield month
        month = month.next


def month_of(table: str) -> Month | None:
    """The month of a partition by its name; None for the rest."""
    parts = table.removeprefix("transitions_").split("_")
    return Month(*map(int, parts)) if len(parts) == 2 and all(part.isdigit() for part in parts) else None  # noqa: PLR2004


def keep_months(connection: Connection, now: datetime | None = None) -> None:
    """Make the months that are missing, and drop those that are over and empty; `now` by the server's clock.

    A month that cannot be had does not keep the others; LockNotAvailable, at the end, if one could not be made. One
    that is not dropped costs nothing.
    """
    now = now or connection.execute(_QUERIES["now"]).fetchall()[0]["now"]
    parts = [row["name"] for row in connection.execute(_QUERIES["parts"])]
    refused: list[errors.LockNotAvailable] = []
    for month in months_ahead(now):
        if month.table not in parts:
            try:
                _make(connection, month)
            except errors.LockNotAvailable as error:
                refused.append(error)
    for table in parts:
        past = month_of(table)
        if past is not None and past < Month.of(now):
            # Another supervisor was faster; or a long reader is there, and the month stays for the next upkeep.
            with contextlib.suppress(errors.UndefinedTable, errors.LockNotAvailable):
                _drop_if_empty(connection, past)
    if refused:
        raise refused[0]


def _make(connection: Connection, month: Month) -> None:
    """Beside the others, filled from the rest, then joined; who writes waits for the latter two."""
    names = {"part": sql.Identifier(month.table), "low": month.first_id, "high": month.next.first_id}
    # The whole before its part: who writes now waits where it has not chosen a part yet. One that had, and then waited
    # for the rest, would be refused: its row belongs to a month that was not there when it chose.
    steps = ("make", "make_lock", "make_lock_rest", "make_filled", "make_joined")
    try:
        with connection.transaction():
            _limit_waits(connection)
            for step in steps:
                connection.execute(_QUERIES[step].format(**names))
    except (errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation):
        return  # another supervisor was faster


def _drop_if_empty(connection: Connection, month: Month) -> None:
    part = sql.Identifier(month.table)
    # Without a lock first: nearly always something is kept of a month, and nobody has to wait for that to be seen.
    if not _is_empty(connection, part):
        return
    with connection.transaction():
        _limit_waits(connection)
        # Held before it is looked at: what a late writer adds in between would go unseen. The whole before its part, as
        # others take them: else each would wait for the other.
        connection.execute(_QUERIES["drop_lock"])
        connection.execute(_QUERIES["drop_lock_part"].format(part=part))
        if _is_empty(connection, part):
            connection.execute(_QUERIES["drop"].format(part=part))


def _is_empty(connection: Connection, part: sql.Identifier) -> bool:
    return connection.execute(_QUERIES["some"].format(part=part)).fetchone() is None


def _limit_waits(connection: Connection) -> None:
    connection.execute(_QUERIES["limit_waits"], {"lock_wait": LOCK_WAIT, "standstill": STANDSTILL})
