"""What PostgreSQL adds to the contract: connections that die, freeze and turn read-only, and who may do what."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pg_server import Databases, suspended, url_of
from psycopg import conninfo

from chong.store.errors import ConfigurationError, Refused, StoreError, StoreUnavailable
from chong.store.open import check_address, open_store
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_address import label_of, parsed
from chong.store.postgres_schema import NEEDED
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import (
    LATER_TERM,
    TERM,
    TTL,
    moved,
    node_record,
    put,
    read,
    request,
    stored_queued,
    stored_run,
    task_id,
    term_record,
)
from chong.store.states import Status

DEADLINE = 1.0
LIMIT = 20.0
TO_SCHEMA_4 = (
    "DROP TABLE rebucketings, renewals",
    "DROP INDEX leases_by_term",
    "ALTER TABLE leases DROP COLUMN follows",
    "ALTER TABLE commands DROP COLUMN stored_at",
    "UPDATE deployment SET schema_version = 4, oldest_code = 1",
)


@pytest.fixture
def store(database: str) -> Iterator[PostgresTaskStore]:
    with PostgresTaskStore(database, deadline=DEADLINE) as store:
        yield store


def backends(database: str) -> list[int]:
    """The server's processes that serve this database, but for the one that asks."""
    with psycopg.connect(database, autocommit=True) as connection:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return [pid for (pid,) in connection.execute(asked)]


def execute(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def database_set(address: str, setting: str) -> Iterator[None]:
    """What connections that are made from now on begin with."""
    name = conninfo.conninfo_to_dict(address)["dbname"]
    execute(address, f"ALTER DATABASE {name} SET {setting}")
    try:
        yield
    finally:
        execute(address, f"ALTER DATABASE {name} RESET ALL")


def terms_renewed(address: str) -> list[str]:
    with psycopg.connect(address) as connection:
        return [term for (term,) in connection.execute("SELECT term FROM renewals ORDER BY term")]


def eventually(call: Callable[[], Any]) -> Any:
    """What a call gives that may fail for a while, because the store is away."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            return call()
        except StoreUnavailable:
            assert time.monotonic() < end


def refusal(address: str, **options: bool) -> str:
    with pytest.raises(ConfigurationError) as refused:
        PostgresTaskStore(address, deadline=DEADLINE, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


class TestConnections:
    def test_a_terminated_connection_costs_one_call(self, store, database):
        """The next one gets another."""
        task = stored_queued(store)
        execute(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        with pytest.raises(StoreUnavailable):
            store.get(task.id)
        assert read(store, task).id == task.id

    def test_a_frozen_backend_is_given_up(self, store, database):
        """It keeps none of the server's own time-outs."""
        task = stored_queued(store)
        with suspended(backends(database)):
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable):
                store.get(task.id)
            assert DEADLINE <= time.monotonic() - begun < DEADLINE + LIMIT
            assert read(store, task).id == task.id

    def test_a_call_that_waits_for_a_lock_is_given_up(self, store, database):
        """On both sides: the server keeps no transaction that nobody waits for."""
        run = stored_run(store)
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM leases FOR UPDATE")
            with pytest.raises(StoreUnavailable):
                store.expire([run.id], "event", actor="judge")
            other.rollback()
        assert read(store, run).status is run.status

    @pytest.mark.parametrize(
        "setting", ["datestyle = 'German, DMY'", "intervalstyle = 'iso_8601'", "client_encoding = 'SQL_ASCII'"]
    )
    def test_what_a_database_says_of_the_form_of_values_does_not_reach_us(self, store, database, setting):
        """A connection that is made from now on starts with it, and the driver could not read its times."""
        run = read(store, stored_run(store, 1, bucket_key="日本"))
        with database_set(database, setting), PostgresTaskStore(database) as other:
            assert other.get(run.id) == run
            assert other.leases()[0].ttl == TTL

    def test_a_write_sees_what_it_has_waited_for(self, database):
        """Whatever isolation a database has by default: else a `rebucket` would pass over what was just stored."""
        with (
            database_set(database, "default_transaction_isolation = 'repeatable read'"),
            PostgresTaskStore(database) as other,
            other._calls.writing("SELECT 1") as db,
        ):
            told = db.execute("SHOW transaction_isolation", {})
        assert told.fetchone() == {"transaction_isolation": "read committed"}

    def test_a_renewal_does_not_wait_for_a_lock(self, store, database):
        """It takes what is free; the rest is renewed next time, and not reported as gone."""
        held, free = stored_run(store, 1), stored_run(store, 2)
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM leases WHERE task_id = %s FOR UPDATE", (held.id,))
            assert store.renew(TERM, [held.id, free.id], TTL) == set()
        assert [lease.renewals for lease in store.leases()] == [0, 1]

    def test_the_renewals_of_a_term_go_with_it(self, store, database):
        """Not before its last lease is gone, and never those of a living one."""
        store.register_term(term_record(), node_record())
        store.register_term(term_record(term=LATER_TERM), node_record(term=LATER_TERM))
        run = stored_run(store)
        for term in (TERM, LATER_TERM):
            store.renew(term, [run.id], TTL)
        execute(database, "UPDATE terms SET started_at = started_at - interval '1 day'")
        store.prune_traces(timedelta(hours=1))
        assert terms_renewed(database) == [TERM, LATER_TERM]
        put(store, run, moved(run, Status.SUCCEEDED))
        store.prune_traces(timedelta(hours=1))
        assert terms_renewed(database) == [LATER_TERM]

    def test_a_lease_whose_terms_row_is_gone_is_judged_by_its_own(self, store, database):
        """By hand, or by a term that was pruned in the moment in which it renewed: nobody may wait for it for ever."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)
        execute(database, "DELETE FROM renewals", "UPDATE leases SET until = clock_timestamp() - interval '1 s'")
        assert [lease.is_past for lease in store.leases()] == [True]
        assert [task.id for task in store.expire([run.id], "event", actor="judge")] == [run.id]

    def test_renewals_have_a_connection_of_their_own(self, store, database):
        """All others may be stuck."""
        run = stored_run(store)
        store.renew(TERM, [run.id], TTL)

        def get() -> None:
            with suppress(StoreUnavailable):
                store.get(run.id)

        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE tasks")
            stuck = [threading.Thread(target=get) for _ in range(8)]
            for thread in stuck:
                thread.start()
            assert store.renew(TERM, [run.id], TTL) == set()
            other.rollback()
        for thread in stuck:
            thread.join(LIMIT)

    def test_a_server_that_turned_read_only_is_left(self, store, database):
        """As a former primary does; the connection is not kept for the next call."""
        stored_queued(store, 1)
        name = conninfo.conninfo_to_dict(database)["dbname"]
        execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        for pid in backends(database):
            execute(database, f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(StoreUnavailable):
            stored_queued(store, 2)
        with pytest.raises(StoreUnavailable, match="read-only"):
            stored_queued(store, 2)
        execute(database, "SET default_transaction_read_only = off", f"ALTER DATABASE {name} RESET ALL")
        assert eventually(lambda: stored_queued(store, 2)).version == 1

    def test_a_restart_costs_no_more_than_the_calls_meanwhile(self, server):
        """The pool finds the server again by itself, at once."""
        with PostgresTaskStore(server.address, deadline=DEADLINE) as store:
            task = stored_queued(store)
            server.stop(signal.SIGQUIT)
            begun = time.monotonic()
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    store.get(task.id)
            assert time.monotonic() - begun < LIMIT
            server.start()
            assert read(store, task).id == task.id

    def test_a_closed_store_says_so(self, database):
        """And waits for the call under way."""
        store = PostgresTaskStore(database)
        store.close()
        store.close()
        with pytest.raises(StoreUnavailable, match="is closed"):
            store.deployment()

    def test_a_store_is_not_carried_across_a_fork(self, store):
        """Two processes would speak on one connection."""
        child = os.fork()
        if not child:
            try:
                store.deployment()
            except StoreError as error:
                os._exit(7 if "after the fork" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class TestBell:
    def test_it_rings_for_its_node_alone(self, store, database):
        """At once after it was connected too: what came before may have rung for nobody."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell, closing(store.bell("elsewhere")) as other:
            assert [each.wait(0.0) for each in (bell, other)] == [True, True]
            assert [each.wait(0.0) for each in (bell, other)] == [False, False]
            store.submit_command(request(1, run))
            assert bell.wait(LIMIT) is True
            assert other.wait(0.0) is False

    def test_it_comes_back_after_a_lost_connection(self, store, database):
        """It stays silent meanwhile, and does not fail."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell:
            bell.wait(0.0)
            execute(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            assert bell.wait(1.0) is False
            assert bell.wait(1.0) is True

    def test_it_rings_only_when_the_command_is_stored(self, store):
        """One that is refused rings nowhere."""
        run = stored_run(store)
        with closing(store.bell(run.node)) as bell:
            bell.wait(0.0)
            with pytest.raises(Refused):
                store.submit_command(replace(request(1, run), task_id=task_id(404)))
            assert bell.wait(0.1) is False


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://h/y?dbname=u:s3cret@h/x",
            "postgresql:///x?host=h,u:s3cret@h",
            "host=u:s3cret@h dbname=x",
            "host=h dbname=u:s3cret@h/x",
        ],
    )
    def test_a_password_in_a_place_that_is_shown_is_refused(self, address):
        """Each error would begin with it."""
        with pytest.raises(ConfigurationError) as refused:
            parsed(address)
        assert "s3cret" not in str(refused.value)

    @pytest.mark.parametrize("address", ["postgresql://h/x?user=u:s3cret@h", "user=u:s3cret host=h dbname=x"])
    def test_a_password_behind_a_name_is_not_shown(self, address):
        """Each error begins with this."""
        assert label_of(parsed(address)) == "postgresql://u@h/x"

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
            ({"user": "nobody-here"}, 'role "nobody-here" does not exist'),
        ],
    )
    def test_what_is_wrong_for_good_is_told(self, database, change, expected):
        """A supervisor too ends with it: waiting cures nothing."""
        address = url_of(conninfo.conninfo_to_dict(database) | change)
        assert expected in refusal(address)
        assert expected in refusal(address, patient=True)

    def test_a_wrong_password_is_told_and_never_shown(self, server):
        """Neither the right one nor the wrong one."""
        execute(server.address, "CREATE ROLE ann LOGIN PASSWORD 'right-s3cret'")
        (server.data / "pg_hba.conf").write_text("local all chong trust\nlocal all ann scram-sha-256\n")
        server.restart()
        told = refusal(f"postgresql://ann:wr0ng-s3cret@/postgres?host={server.root}")
        assert "password authentication failed" in told
        assert "s3cret" not in told

    @pytest.mark.parametrize(
        "address", ["postgresql://u:s3cret@h:port/x", "postgresql://h/x?pasword=s3cret", "postgres://[s3cret/x"]
    )
    def test_what_is_no_address_is_told_without_showing_it(self, address):
        """A password may stand anywhere in it."""
        with pytest.raises(ConfigurationError) as refused:
            check_address(address)
        assert "expected" in str(refused.value)
        assert "s3cret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("address", "said"),
        [
            ("postgresql:u:s3cret@h/x", "expected postgresql:// at its beginning"),
            ("POSTGRESQL://u:s3cret@h/x", "expected postgresql:// at its beginning"),
            ("postgresql://u:s3c@ret@h/x", "user or password: expected an @ in it as %, got it as it is"),
            ("postgresql://u:s3c/ret@h/x", "user or password: expected a / in it as %, got it as it is"),
            ("postgresql://u:s3c/r?et@h/x", "user or password: expected a / in it as %, got it as it is"),
            ("postgresql://u:s3c%ret@h/x", "user or password: expected two hexadecimal digits, not 00, after each %"),
            ("postgresql://u:s3cret@h/x%", "database: expected two hexadecimal digits"),
            ("postgresql://u:s3cret@h:port/x", "port: expected a number from 1 to 65535, got text that is no number"),
            ("postgresql://u:s3cret@h:70000/x", "port: expected a number from 1 to 65535, got 70000"),
            ("postgresql://u:s3cret@h:1,k:0/x", "port: expected a number from 1 to 65535, got 0"),
            ("postgresql://u:s3cret@h/x?port=70000", "port: expected a number from 1 to 65535, got 70000"),
            ("postgresql://u:s3c@h/x?port=70000&user=a@b", "port: expected a number from 1 to 65535, got another one"),
            (
                "postgresql://h:5432/x?user=u@s3c&ssl_mode=require",
                "option: expected one that PostgreSQL's driver knows",
            ),
            ("postgresql://u:s3cret@h/x?ssl=false&", "expected postgresql://user@host:5432/database?option=value"),
            ("postgresql://u:s3cret", "port: expected a number from 1 to 65535, got text that is no number"),
            ("postgresql:///x?host=u:s3cret@h", "host: expected none with an @ in it"),
            ("postgresql:///x?hostaddr=u:s3cret@h", "host: expected none with an @ in it"),
            ("postgresql://u:73133", "port: expected a number from 1 to 65535, got another one; if it was meant as"),
            ("postgresql://u:s3cret@[::1/x", "host: expected a name, an address, or an IPv6 address in [ ]"),
            ("postgresql://u:s3cret@h/x?ssl_mode=require", "got ssl_mode, did you mean sslmode?"),
            ("postgresql://u:s3c@h?ret=1@h/x", "option: expected one that PostgreSQL's driver knows, got another one"),
            ("postgresql://u:s3cret@h/x?sslmode", "option: expected name=value after the ?, got it without ="),
            ("postgresql://u:s3cret@h", "database: expected its name"),
            ("postgresql://u:s3cret@h/?connect_timeout=1", "database: expected its name"),
        ],
    )
    def test_the_part_that_is_wrong_is_named(self, address, said):
        """In one line, with what was expected, and with nothing that might belong to the password."""
        with pytest.raises(ConfigurationError) as refused:
            check_address(address)
        text = str(refused.value)
        assert said in text
        assert not any(part in text for part in ("s3c", "73133", "\n"))

    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://u:p#s?s@h/x",
            "postgres://u:p%40@[::1]:5432,b:1/x?ssl=true&application_name=a%20b",
            "postgresql:///x?host=/run/a@b",
            "postgresql://u@h:/x",
            "postgresql://h?dbname=x",
            "postgresql://u@?service=x",
            "postgresql://localhost:5432/db?user=me@corp",
            "postgresql://localhost:5432/db?application_name=chong@north",
            "postgresql://localhost:5432/db?user=me&password=p@ss",
            "postgresql://u:p@h:5432/db?application_name=chong@north",
            "postgresql://h/x?sslmode=require&",
            "postgresql://h:%35432/x",
            "host=h dbname=x",
        ],
    )
    def test_whatever_the_driver_takes_is_taken(self, address):
        """A # and a ? do no harm in a password."""
        assert parsed(address)

    def test_the_database_may_be_named_by_the_environment(self, monkeypatch):
        """As the driver reads it."""
        monkeypatch.setenv("PGDATABASE", "x")
        check_address("postgresql://u@h")

    def test_a_server_that_is_away_is_an_error_of_its_own(self):
        """To wait for; nothing listens on a socket that was only bound."""
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            address = f"postgresql://u:s3cret@127.0.0.1:{bound.getsockname()[1]}/x"
            with pytest.raises(StoreUnavailable) as away:
                PostgresTaskStore(address, deadline=DEADLINE)
            assert "s3cret" not in str(away.value)
            assert f"postgresql://u@127.0.0.1:{bound.getsockname()[1]}/x" in str(away.value)

    def test_a_supervisor_opens_a_store_that_is_away(self, server):
        """And has it as soon as it is there; the tables are made then."""
        server.stop()
        with open_store(server.address, serving=True) as store:
            with pytest.raises(StoreUnavailable):
                store.deployment()
            server.start()
            assert store.deployment().num_buckets is None

    def test_a_server_that_accepts_and_says_nothing_is_away(self):
        """As behind a firewall that opens connections by itself."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/x?connect_timeout=1"
            with pytest.raises(StoreUnavailable):
                PostgresTaskStore(address, deadline=DEADLINE)

    def test_the_second_host_is_used_when_the_first_is_away(self, server, tmp_path):
        """As after a failover."""
        address = f"postgresql://chong@/postgres?host={tmp_path},{server.root}&target_session_attrs=read-write"
        with PostgresTaskStore(address, deadline=LIMIT) as store:
            assert stored_queued(store).version == 1

    @pytest.mark.parametrize("name", ["psycopg", "psycopg.pool"])
    def test_the_driver_says_nothing_by_itself(self, name):
        """An error is one line: what went wrong again while a failed transaction was undone is none of them."""
        code = f"import logging, chong.store.postgres; logging.getLogger({name!r}).warning('error ignored in rollback')"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stderr == b""

    def test_without_the_driver_the_command_to_install_it_is_told(self):
        """The core does not need it."""
        code = (
            "import sys; sys.modules['psycopg'] = None\n"
            "from chong.store.open import open_store\n"
            "try: open_store('postgresql://u:s3cret@h/x')\n"
            "except Exception as error: print(type(error).__name__, error)\n"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert said.startswith("ConfigurationError")
        assert "pip install 'chong[postgres]'" in said
        assert "s3cret" not in said


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

    @pytest.mark.parametrize(
        "table",
        [
            "tasks (mine text)",
            "deployment (mine text)",
            "deployment AS SELECT 'blue' AS schema_version, 1 AS oldest_code",
            "deployment AS SELECT NULL::integer AS schema_version, 1 AS oldest_code",
        ],
    )
    def test_somebody_elses_tables_are_left_alone(self, databases: Databases, table: str):
        """A table of one of our names is no store of ours."""
        name = databases.new("template1")
        try:
            databases.execute(f"CREATE TABLE {table}", database=name)
            assert "got other tables" in refusal(databases.of(name))
        finally:
            databases.drop(name)
