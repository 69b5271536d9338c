"""A store as it looks after years: many finished tasks with their trails, and a few thousand open ones."""

from pathlib import Path
from typing import Any, cast

from chong.store.partitions import keep_months
from chong.store.postgres_connection import Connection

SQL = Path(__file__).resolve().parent / "sql"
MONTHS = 13


class LargeStore:
    """Fills the tables that a store of chong has made; `address` is the database's."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._finished = 0

    def add_open(self, count: int) -> None:
        """Work that has not ended; once for a store."""
        with Connection.connect(self._address) as connection:
            _run(connection, "open", open=count)

    def grow(self, finished: int) -> None:
        """Until there are so many finished tasks, with fresh statistics, as autovacuum keeps them."""
        with Connection.connect(self._address) as connection:
            for back in range(MONTHS + 1):
                moment = connection.execute("SELECT now() - make_interval(months => %s) AS t", (back,)).fetchall()
                keep_months(connection, moment[0]["t"])
            indexes = connection.execute(
                "SELECT indexname AS name, indexdef AS definition FROM pg_indexes"
                " WHERE tablename = 'tasks' AND indexname <> 'tasks_pkey'"
            ).fetchall()
            # Made anew at the end, which is a third of the work of keeping them.
            for index in indexes:
                connection.execute(cast("Any", f"DROP INDEX {index['name']}"))
            _run(connection, "finished", first=self._finished, last=finished)
            for index in indexes:
                connection.execute(cast("Any", index["definition"]))
            connection.execute("VACUUM (ANALYZE)")
        self._finished = finished


def _run(connection: Connection, script: str, **settings: int) -> None:
    text = (SQL / f"{script}.sql").read_text(encoding="utf-8")
    with connection.transaction():
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (f"bench.{name}", str(value)))
        connection.execute(cast("Any", text))
