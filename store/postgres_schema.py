"""A PostgreSQL store's tables: how they are recognised, made, brought up to date, and refused when too new.

Each step is one transaction: its file, and the months of the trail. Steps only add, so that nodes are upgraded one by
one: `oldest_code` says which code may still use the tables.
"""

import re
from collections.abc import Collection
from typing import Any, cast

from psycopg import errors

from chong.store.deployment import sole_row
from chong.store.errors import ConfigurationError, RightsMissing, StoreUnavailable, TablesMissing, TablesOutdated
from chong.store.few import few
from chong.store.partitions import keep_months
from chong.store.postgres_connection import Connection
from chong.store.postgres_errors import WRITES
from chong.store.queries import load_queries, load_script, with_percent
from chong.store.schema import OLDEST_CODE, SCHEMA_VERSION

STEPS = {4: "postgres_schema"} | {step: f"postgres_schema_{step}" for step in (5, 6, 7, 8, 9)}
"""The file that leads to a schema version; the first one makes all tables."""

NEEDED = 6
"""The last step that code has to know: without it, each renewed lease looks as if it were past."""

STEP_MILLISECONDS = "5000"
"""How long a step may wait for locks, take for a statement, and stand still between two."""

OLDEST_SERVER = 14
ENCODING = "UTF8"
"""The one encoding that has every character of a name, a key or a reason, and takes nothing that is no text."""
READ_ONLY = "read-only server, such as a standby, or a role for which each transaction is"
_SHOWN = 3
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
STRANGERS = "expected an empty database or chong's, got other tables"
NO_SCHEMA = "expected a search_path that leads to a schema, got one that leads to none"


def recognise(connection: Connection, label: str, *, create: bool) -> None:
    """Refuse what this code cannot use; make or upgrade the tables if `create` says so."""
    server = connection.info.server_version // 10_000
    if server < OLDEST_SERVER:
        raise ConfigurationError(f"store {label}: expected PostgreSQL {OLDEST_SERVER} or newer, got {server}")
    # A pooler hands it on; what says nothing of it is taken at its word, as for the forms of times.
    encoding = connection.info.parameter_status("server_encoding") or ENCODING
    if encoding != ENCODING:
        raise ConfigurationError(
            f"store {label}: expected a database with the encoding {ENCODING}, got {encoding}: "
            f"make one with CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0"
        )
    found = _deployment(connection, label)
    if found is None or found["schema_version"] < SCHEMA_VERSION:
        if not create:
            _check_rights(connection, label, 0 if found is None else found["schema_version"])
            remedy = "run `chong migrate`, or start a supervisor"
            if found is None:
                raise TablesMissing(f"store {label} has no tables of chong: {remedy}")
            versions = f"has schema {found['schema_version']}, this code needs {SCHEMA_VERSION}"
            raise TablesOutdated(f"store {label} {versions}: {remedy}")
        migrate(connection, label)
        found = _deployment(connection, label)
    if found is not None and found["oldest_code"] > SCHEMA_VERSION:
        raise ConfigurationError(
            f"store {label} has schema {found['schema_version']}, for code that knows schema "
            f"{found['oldest_code']} or newer; this one knows {SCHEMA_VERSION}: install a newer chong here"
        )


def check_serving(connection: Connection, label: str) -> None:
    """Refuse what a supervisor could not work with, without changing anything: it writes to every table."""
    found = _rights(connection)
    if found["is_read_only"]:
        raise ConfigurationError(f"store {label}: expected a server that can be written to, got a {READ_ONLY}")
    closed = found["closed_tables"]
    if closed:
        raise ConfigurationError(
            f"store {label}: expected a role with {WRITES} on chong's tables, got one without that on "
            f"{', '.join(closed[:_SHOWN])}{' and others' if len(closed) > _SHOWN else ''}"
        )


def _rights(connection: Connection) -> dict[str, Any]:
    asked = with_percent(load_script("postgres_rights"))
    found = connection.execute(cast("Any", asked), {"tables": _tables()}).fetchone()
    assert found is not None, "it selects one row"
    return found


def _tables(newest: int = SCHEMA_VERSION, *, above: int = 0) -> list[str]:
    """Chong's own, as the steps behind one version make them up to another; strangers' tables may lie beside them."""
    scripts = [script for version, script in STEPS.items() if above < version <= newest]
    return [table for script in scripts for table in _TABLE.findall(load_script(script))]


def _check_rights(connection: Connection, label: str, version: int) -> None:
    """Refuse where `migrate` would end with an error, without making anything; `version` is there already."""
    found = _rights(connection)
    if found["schema"] is None:
        raise ConfigurationError(f"store {label}: {NO_SCHEMA}")
    if set(found["taken"] or ()).intersection(_tables(above=version)):
        raise ConfigurationError(f"store {label}: {STRANGERS}")
    if found["is_read_only"]:
        raise ConfigurationError(
            f"store {label}: no tables of this version on a {READ_ONLY}: run `chong migrate` where it can be written to"
        )
    if not found["may_create"]:
        raise RightsMissing(
            f"store {label}: permission denied for schema {found['schema']}, no tables of this version: "
            f"run `chong migrate` with a role that may create tables, got {found['role']}"
        )


def migrate(connection: Connection, label: str) -> list[int]:
    """Take the steps that are missing; returns them. Several processes may do so at once."""
    taken = []
    for version in sorted(STEPS):
        found = _deployment(connection, label)
        if found is not None and found["schema_version"] >= version:
            continue
        try:
            with connection.transaction():
                _step(connection, version)
        except (errors.DuplicateColumn, errors.DuplicateObject, errors.DuplicateTable, errors.UniqueViolation):
            # Somebody else was faster: what counts is what stands then.
            found = _deployment(connection, label)
            if found is None or found["schema_version"] < version:
                raise ConfigurationError(f"store {label}: {STRANGERS}") from None
        except errors.InvalidSchemaName as error:
            raise ConfigurationError(f"store {label}: {NO_SCHEMA}") from error
        except errors.ReadOnlySqlTransaction as error:
            raise StoreUnavailable(
                f"store {label}: expected a server that can be written to, got a read-only one"
            ) from error
        except errors.InsufficientPrivilege as error:
            # Somebody else's tables are no matter of rights.
            _check_rights(connection, label, 0 if found is None else found["schema_version"])
            said = error.diag.message_primary
            raise RightsMissing(
                f"store {label}: {said}: run `chong migrate` with a role that may create tables"
            ) from error
        else:
            taken.append(version)
    return taken


def _step(connection: Connection, version: int) -> None:
    queries = load_queries("postgres")
    # It locks whole tables: whoever is frozen in it must not keep the nodes from renewing.
    connection.execute(cast("Any", with_percent(queries["limits"])), {"milliseconds": STEP_MILLISECONDS})
    connection.execute(cast("Any", load_script(STEPS[version])))
    keep_months(connection)  # in the same transaction: nobody writes to a trail whose month is still being made
    created = with_percent(queries["deployment_create"])
    oldest = max(OLDEST_CODE, min(version, NEEDED))
    connection.execute(cast("Any", created), {"schema_version": version, "oldest_code": oldest})


def _deployment(connection: Connection, label: str) -> dict[str, Any] | None:
    """The versions of tables that are chong's; None where there are none.

    StoreUnavailable where a part of them is gone: a copy may just be being restored.
    """
    try:
        found = _asked(connection, "deployment_versions")
    except (errors.UndefinedTable, errors.UndefinedColumn):
        present = _asked(connection, "deployment_tables")["present"] or []
        _refuse_part(present, min(STEPS), label)
        return None
    present = found["present"] or []
    if "deployment" not in present or not _are_ours(present):
        raise ConfigurationError(f"store {label}: {STRANGERS}")
    version = sole_row(found["schema_version"])
    _refuse_part(present, version, label)
    return found


def _asked(connection: Connection, query: str) -> dict[str, Any]:
    asked = with_percent(load_queries("postgres")[query])
    found = connection.execute(cast("Any", asked), {"tables": _tables()}).fetchone()
    assert found is not None, "it selects one row"
    return found


def _are_ours(present: Collection[str]) -> bool:
    """Of somebody else's tables one or another may be called as one of chong's, but not most."""
    first = _tables(min(STEPS))
    return 2 * len(set(first).intersection(present)) > len(first)


def _refuse_part(present: Collection[str], version: int, label: str) -> None:
    """StoreUnavailable when chong's tables are there, but for some."""
    missing = [table for table in _tables(version) if table not in present]
    if missing and _are_ours(present):
        raise StoreUnavailable(f"store {label}: expected the table {few(missing)}, got none: restore the store")
