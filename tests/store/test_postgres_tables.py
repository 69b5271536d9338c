"""The tables of a PostgreSQL store: made, upgraded, and refused where they are too new or somebody else's."""

import os
import threading
from collections.abc import Iterator

import pytest
from pg_server import Databases, execute
from postgres_refusal import refusal

from chong.store.errors import StoreUnavailable
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_schema import NEEDED
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import TERM, TTL, read, request, stored_run

DEADLINE = 1.0
LIMIT = 20.0
TO_SCHEMA_4 = (
    "DROP TABLE rebucketings, renewals",
    "DROP INDEX leases_by_term",
    "ALTER TABLE leases DROP COLUMN follows",
    "ALTER TABLE commands DROP COLUMN stored_at",
    "ALTER TABLE nodes DROP COLUMN machine_id",
    "DROP INDEX tasks_by_group",
    "ALTER TABLE tasks DROP COLUMN run_timeout",
    "ALTER TABLE tasks DROP COLUMN due_at",
    "ALTER TABLE transitions DROP COLUMN ended",
    "DROP INDEX firings_of_key",
    "CREATE UNIQUE INDEX firings_once ON firings (name, planned, coalesce(key, ''), (key IS NULL))",
    "UPDATE deployment SET schema_version = 4, oldest_code = 1",
)
VERSIONS_OF_OURS = f"SELECT 1 AS only_row, 64 AS num_buckets, {SCHEMA_VERSION} AS schema_version, 1 AS oldest_code"


@pytest.fixture
def store(database: str) -> Iterator[PostgresTaskStore]:
    with PostgresTaskStore(database, deadline=DEADLINE) as store:
        yield store


class TestTables:
    def test_an_empty_database_is_refused_to_those_who_only_look(self, databases: Databases):
        """And left empty."""
        name = databases.new("template1")
        try:
            assert "has no tables of chong: run `chong migrate`" in refusal(databases.of(name), create=False)
            assert "has no tables of chong" in refusal(databases.of(name), create=False)
        finally:
            databases.drop(name)

    @pytest.mark.parametrize("tables", ["empty", "older"])
    def test_several_supervisors_may_start_at_once(self, databases: Databases, tables: str):
        """One makes or upgrades the tables, the others find them."""
        name = databases.new("template1" if tables == "empty" else None)
        faults: list[BaseException] = []

        def start() -> None:
            try:
                PostgresTaskStore(databases.of(name), deadline=LIMIT).close()
            except BaseException as fault:
                faults.append(fault)

        try:
            if tables == "older":
                databases.execute(*TO_SCHEMA_4, database=name)
            threads = [threading.Thread(target=start) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LIMIT)
            assert faults == []
            with PostgresTaskStore(databases.of(name), create=False) as store:
                stored_run(store)
        finally:
            databases.drop(name)

    def test_older_tables_get_what_is_new(self, store, database):
        """By whoever may make tables; who only looks is told to wait for that, and the tasks stay as they were."""
        run = read(store, stored_run(store))
        store.submit_command(request(1, run))
        execute(database, *TO_SCHEMA_4)
        assert f"has schema 4, this code needs {SCHEMA_VERSION}: run `chong migrate`" in refusal(database, create=False)
        for number in (1, 2):
            with PostgresTaskStore(database) as upgraded:
                assert read(upgraded, run) == run
                assert upgraded.rebucketings() == []
                assert upgraded.renew(TERM, [run.id], TTL) == set()
                assert [lease.renewals for lease in upgraded.leases()] == [number]
                assert upgraded.commands(run.id) == [request(1, run)]
                assert upgraded.deployment().schema_version == SCHEMA_VERSION
            run = read(store, run)

    def test_code_that_would_misread_the_tables_is_refused(self, store, database):
        """To code of schema 5 each lease that has been renewed is past."""
        assert store.deployment().oldest_code == NEEDED

    def test_an_upgrade_leaves_what_newer_code_has_said(self, store, database):
        """Code that is too old for the tables is refused after it, as before it."""
        execute(database, *TO_SCHEMA_4, "UPDATE deployment SET oldest_code = 900")
        assert "for code that knows schema 900 or newer" in refusal(database)

    def test_tables_for_newer_code_are_refused(self, database):
        """Reading them wrongly would be worse."""
        execute(database, "UPDATE deployment SET schema_version = 900, oldest_code = 900")
        assert "has schema 900" in refusal(database)

    def test_a_table_of_somebody_elses_with_a_later_name_is_told(self, databases: Databases):
        """Not taken for the work of another process that was faster."""
        name = databases.new("template1")
        try:
            execute(databases.of(name), "CREATE TABLE renewals (x integer)")
            assert "got other tables" in refusal(databases.of(name))
        finally:
            databases.drop(name)

    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    @pytest.mark.parametrize(
        "kind",
        [
            "SEQUENCE nodes",
            "TABLE tasks (mine text)",
            "TABLE deployment (mine text)",
            "TABLE deployment AS SELECT 'blue' AS schema_version, 1 AS oldest_code",
            "TABLE deployment AS SELECT NULL::integer AS schema_version, 1 AS oldest_code",
            f"TABLE deployment AS SELECT {SCHEMA_VERSION} AS schema_version, 1 AS oldest_code",
        ],
    )
    def test_somebody_elses_tables_are_left_alone(self, databases: Databases, kind: str, create: bool):
        """What has one of our names is no store of ours; nobody is sent to a `migrate` that would be refused."""
        name = databases.new("template1")
        try:
            databases.execute(f"CREATE {kind}", database=name)
            assert "got other tables" in refusal(databases.of(name), create=create)
        finally:
            databases.drop(name)

    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    def test_a_search_path_that_leads_nowhere_is_told(self, databases: Databases, create: bool):
        """To everybody, in the same words: no wait cures it, and no right does."""
        name = databases.new("template1")
        try:
            databases.execute(f"ALTER DATABASE {name} SET search_path = nowhere")
            assert "expected a search_path that leads to a schema, got one" in refusal(
                databases.of(name), create=create
            )
        finally:
            databases.drop(name)

    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    @pytest.mark.parametrize(
        "made",
        [
            f"CREATE VIEW deployment AS {VERSIONS_OF_OURS}",
            f"CREATE MATERIALIZED VIEW deployment AS {VERSIONS_OF_OURS}",
            f"CREATE TABLE deployment AS {VERSIONS_OF_OURS}",
            "CREATE TABLE deployment (schema_version integer, oldest_code integer) PARTITION BY LIST (oldest_code)",
        ],
    )
    def test_a_stranger_that_looks_like_the_row_is_no_store(self, databases: Databases, made: str, create: bool):
        """Whatever it is: a store has most of chong's tables, as tables."""
        name = databases.new("template1")
        try:
            databases.execute(made, "CREATE TABLE tasks (mine text)", database=name)
            assert "got other tables" in refusal(databases.of(name), create=create)
        finally:
            databases.drop(name)

    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    @pytest.mark.parametrize("table", ["deployment", "tasks", "transitions_rest", "renewals", "notes"])
    def test_a_table_that_was_dropped_is_named(self, database, table: str, create: bool):
        """As something that is waited for, until a copy is restored; nothing is made in its place."""
        execute(database, f"DROP TABLE {table}")
        with pytest.raises(StoreUnavailable, match=f"expected the table {table}, got none: restore the store"):
            PostgresTaskStore(database, create=create)

    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    def test_a_database_without_its_row_is_told_to_who_opens_it(self, database, create: bool):
        """And not taken for somebody else's."""
        execute(database, "DELETE FROM deployment")
        with pytest.raises(StoreUnavailable, match="the one row"):
            PostgresTaskStore(database, create=create)


class TestEncodings:
    @pytest.mark.parametrize("create", [True, False], ids=["supervisor", "command"])
    @pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
    def test_a_database_that_has_not_every_character_is_refused(self, databases: Databases, encoding, create: bool):
        """At once, not with the first name that has another one."""
        name = f"chong_test_{encoding.lower()}_{os.getpid()}"
        databases.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        try:
            said = refusal(databases.of(name), create=create)
            assert f"expected a database with the encoding UTF8, got {encoding}: make one with CREATE DATABASE" in said
        finally:
            databases.drop(name)

    def test_a_database_that_cannot_even_be_spoken_to_is_refused(self, databases: Databases):
        """The server ends the connection itself: nobody waits for that to change."""
        name = f"chong_test_mule_{os.getpid()}"
        databases.execute(
            f"CREATE DATABASE {name} ENCODING 'MULE_INTERNAL' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        try:
            assert "conversion between UTF8 and MULE_INTERNAL is not supported" in refusal(databases.of(name))
        finally:
            databases.drop(name)
