"""The tables' versions: how a database is recognised, made, and refused when it is too new."""

import re
import sqlite3

from chong.store.codec import schema_from_row
from chong.store.errors import ConfigurationError, StoreUnavailable
from chong.store.few import few
from chong.store.queries import load_queries, load_script

SCHEMA_VERSION = 9
"""The version that this code writes. Migrations only add, so a database names the oldest code that may use it."""

OLDEST_CODE = 1

ADDED = (
    ("nodes", "containment", "TEXT NOT NULL DEFAULT ''"),
    ("nodes", "ended_at", "INTEGER"),
    ("catalogue", "hold", "TEXT"),
    ("deployment", "holds_revision", "INTEGER NOT NULL DEFAULT 0"),
    ("nodes", "holds_seen", "INTEGER"),
    ("nodes", "clock_ahead", "INTEGER"),
    ("commands", "stored_at", "INTEGER"),
    ("nodes", "machine_id", "TEXT NOT NULL DEFAULT ''"),
    ("tasks", "run_timeout", "REAL"),
    ("tasks", "due_at", "INTEGER"),
    ("transitions", "ended", "TEXT"),
)
"""Columns that came after the first version: table, name, definition."""

APPLICATION_ID = 0x63686E67
"""Marks a SQLite file as chong's ("chng"), so that nobody else's database is taken for an empty store."""

_TABLE = re.compile(r"^CREATE TABLE IF NOT EXISTS (\w+)", re.MULTILINE)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make what is not there yet, in one transaction; several processes may do so at once."""
    queries = load_queries("sqlite")
    # executescript() would end a transaction begun outside it.
    connection.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {load_script('sqlite_schema')}"
    )
    connection.execute(queries["deployment_create"], {"schema_version": SCHEMA_VERSION, "oldest_code": OLDEST_CODE})
    connection.execute("COMMIT")


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring an older database up to this version; only ever adds, so that older code goes on beside it."""
    queries = load_queries("sqlite")
    version, _ = schema_from_row(connection.execute(queries["deployment"]).fetchone())
    if version >= SCHEMA_VERSION:
        return
    # Columns first, indexes may need them. Looked at inside: several processes may do so at once.
    connection.execute("BEGIN IMMEDIATE")
    for table, column, kind in ADDED:
        columns = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}
        if columns and column not in columns:  # a table that is new has all of its columns from the script
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    connection.execute("COMMIT")
    # Whoever dies here leaves a database that the next one brings up to date.
    connection.executescript(f"BEGIN IMMEDIATE; {load_script('sqlite_schema')}")
    connection.execute(queries["deployment_upgrade"], {"schema_version": SCHEMA_VERSION, "oldest_code": OLDEST_CODE})
    connection.execute("COMMIT")


def is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def is_ours(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def check_version(connection: sqlite3.Connection, label: str) -> None:
    """Refuse a database that this code is too old for."""
    version, oldest = schema_from_row(connection.execute(load_queries("sqlite")["deployment"]).fetchone())
    if oldest > SCHEMA_VERSION:
        raise ConfigurationError(
            f"store {label} has schema {version}, for code that knows schema "
            f"{oldest} or newer; this one knows {SCHEMA_VERSION}: install a newer chong here"
        )


def check_tables(connection: sqlite3.Connection, label: str) -> None:
    """StoreUnavailable where a part of the tables is gone: nothing can be done until a copy is restored."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    present = {row["name"] for row in found}
    missing = [table for table in _TABLE.findall(load_script("sqlite_schema")) if table not in present]
    if missing:
        raise StoreUnavailable(f"store {label}: expected the table {few(missing)}, got none: restore the store")
