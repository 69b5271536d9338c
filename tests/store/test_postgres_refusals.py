"""What is wrong with a store for good, and what is merely away: told in one line, never with the password."""

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote

import psycopg
import pytest
from pg_server import Server, execute
from waiting import wait_until

from chong.store.errors import ConfigurationError, Refused, RightsMissing, StoreUnavailable
from chong.store.open import check_address, open_store
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_errors import refusal
from chong.store.schema import SCHEMA_VERSION
from chong.store.specimens import TERM, TTL, stored_queued, stored_run

SECRET = "s3cret"
HBA = """
local all all trust
host all locked all scram-sha-256
host all banned all reject
host postgres,empty,full,read_only all all trust
"""
SET_UP = (
    "CREATE ROLE ann LOGIN",
    "CREATE ROLE locked LOGIN PASSWORD 'right-s3cret'",
    "CREATE ROLE banned LOGIN",
    "CREATE ROLE group_only",
    "CREATE DATABASE empty",
    "CREATE DATABASE closed",
    'CREATE DATABASE "full"',
    "CREATE DATABASE read_only",
    "REVOKE CONNECT ON DATABASE closed FROM PUBLIC",
    "ALTER DATABASE read_only SET default_transaction_read_only = on",
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """One with roles that may little, and databases that not everybody may use."""
    with Server(host="127.0.0.1") as server:
        execute(server.address, *SET_UP)
        with PostgresTaskStore(server.address.replace("/postgres?", "/full?")):
            pass
        (server.data / "pg_hba.conf").write_text(HBA.replace("postgres,", "postgres,closed,"))
        server.restart()
        yield server


def address_of(server: Server, user: str, database: str, password: str = SECRET, options: str = "") -> str:
    secret = f":{password}" if password else ""
    return f"postgresql://{user}{secret}@127.0.0.1:{server.port}/{database}?{options}"


def told(kind: type[Exception], address: str, *, patient: bool) -> str:
    """What opening the store ends with, or for one who waits the first call."""
    with pytest.raises(kind) as caught, PostgresTaskStore(address, patient=patient) as store:
        stored_queued(store)
    line = str(caught.value)
    assert "\n" not in line
    assert SECRET not in line
    return line


@pytest.mark.parametrize("patient", [False, True], ids=["command", "supervisor"])
class TestForGood:
    """Nobody waits for what no wait can cure."""

    @pytest.mark.parametrize(
        ("user", "database", "options", "expected"),
        [
            ("locked", "full", "", 'password authentication failed for user "locked"'),
            ("banned", "full", "", "pg_hba.conf rejects connection"),
            ("ann", "template1", "", "no pg_hba.conf entry"),
            ("nobody_here", "full", "", 'role "nobody_here" does not exist'),
            ("group_only", "full", "", "is not permitted to log in"),
            ("ann", "full", "sslmode=require", "server does not support SSL"),
            ("ann", "full", "options=-c%20nonsense%3D1", 'unrecognized configuration parameter "nonsense"'),
        ],
    )
    def test_what_the_server_refuses(self, guarded, user, database, options, expected, patient):
        """Names, passwords, and what the address asks the server for."""
        address = address_of(guarded, user, database, options=options)
        assert expected in told(ConfigurationError, address, patient=patient)

    @pytest.mark.parametrize(
        ("database", "expected"),
        [
            ("closed", "does not have CONNECT privilege"),
            ("empty", "run `chong migrate` with a role that may create tables"),
            ("full", "permission denied for table deployment; expected a role with SELECT"),
        ],
    )
    def test_a_right_that_is_missing_from_the_start(self, guarded, database, expected, patient):
        """Whichever it is: to connect, to make the tables, or to read the first of them."""
        assert expected in told(RightsMissing, address_of(guarded, "ann", database), patient=patient)

    def test_a_right_to_make_the_tables_is_no_matter_of_configuration_to_who_looks(self, guarded, patient):
        """As to who makes them."""
        with (
            pytest.raises(RightsMissing, match="run `chong migrate` with a role that may create tables, got ann"),
            PostgresTaskStore(address_of(guarded, "ann", "empty"), create=False, patient=patient) as store,
        ):
            store.stats()

    def test_a_missing_password(self, guarded, patient):
        """Nothing was refused yet: the driver had nothing to say."""
        address = address_of(guarded, "locked", "full", password="")
        assert "no password supplied" in told(ConfigurationError, address, patient=patient)

    @pytest.mark.parametrize(
        ("option", "expected"),
        [
            ("sslmode=banana", 'invalid sslmode value: "banana"'),
            ("target_session_attrs=banana", 'invalid target_session_attrs value: "banana"'),
            ("connect_timeout=soon", "bad value for connect_timeout: 'soon'"),
            ("keepalives_idle=long", 'invalid integer value "long"'),
            ("service=nowhere", 'definition of service "nowhere" not found'),
        ],
    )
    def test_an_option_that_the_driver_does_not_take(self, guarded, option, expected, patient):
        """Its name is right, its value is not."""
        address = address_of(guarded, "ann", "full", options=option)
        assert expected in told(ConfigurationError, address, patient=patient)

    def test_a_server_that_is_too_old(self, guarded, monkeypatch, patient):
        """It lacks what the queries need."""
        monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 13_0012))
        line = told(ConfigurationError, guarded.address, patient=patient)
        assert line.endswith("expected PostgreSQL 14 or newer, got 13")


class TestAway:
    """What comes back by itself is waited for."""

    @pytest.mark.parametrize(
        "said",
        [
            'connection to server at "127.0.0.1", port 1 failed: Connection refused',
            'connection to server on socket "/tmp/.s.PGSQL.1" failed: FATAL:  the database system is starting up',
            'connection to server on socket "/tmp/.s.PGSQL.1" failed: FATAL:  the database system is shutting down',
            'connection failed: FATAL:  database "x" is not currently accepting connections',
            "connection failed: FATAL:  sorry, too many clients already",
            "failed to resolve host 'db.example': [Errno -2] Name or service not known",
            "connection timeout expired",
            "connection failed: session is read-only",
        ],
    )
    def test_what_a_server_says_that_will_be_back(self, said):
        """Names as well: at a machine's start the network may come last."""
        assert type(refusal(psycopg.OperationalError(said), "postgresql://u@h/x")) is StoreUnavailable

    @pytest.mark.parametrize(
        ("attempts", "kind"),
        [
            (("'a', port: 1: Connection refused", "'b', port: 1: FATAL:  database \"x\" does not exist"), "away"),
            (
                ("'a', port: 1: FATAL:  role \"u\" does not exist", "'b', port: 1: FATAL:  role \"u\" does not exist"),
                "",
            ),
            (("'a', port: 1: Connection refused", "'a', port: 1: FATAL:  password wrong", "'b', port: 1: off"), "away"),
        ],
    )
    def test_of_several_hosts_each_has_to_refuse(self, attempts, kind):
        """The one that is away may be the one that is meant."""
        said = "".join(
            ["the last one\nMultiple connection attempts failed:", *(f"\n- host: {each}" for each in attempts)]
        )
        error = refusal(psycopg.OperationalError(said), "postgresql://u@a,b/x", hosts=2)
        assert type(error) is (StoreUnavailable if kind else ConfigurationError)

    def test_of_several_addresses_of_one_host_one_refusal_will_do(self):
        """`localhost` is often two, and the server listens at one of them."""
        said = "x\nAll failures were:\n- host: 'l', port: 1: refused\n- host: 'l', port: 1: FATAL:  password wrong"
        assert type(refusal(psycopg.OperationalError(said), "postgresql://u@l/x")) is ConfigurationError

    def test_a_second_host_that_refuses_does_not_end_the_wait_for_the_first(self, guarded, tmp_path):
        """As a standby may that was not told of the role."""
        address = f"postgresql://nobody_here@/postgres?host={tmp_path},{guarded.root}"
        told(StoreUnavailable, address, patient=True)

    def test_a_read_only_server_is_waited_for(self, guarded):
        """A standby may be promoted; those who only look are content with it."""
        read_only = guarded.address.replace("/postgres?", "/read_only?")
        assert "can be written to" in told(StoreUnavailable, read_only, patient=True)
        writable = f"{read_only}&options={quote('-c default_transaction_read_only=off')}"
        PostgresTaskStore(writable).close()
        with PostgresTaskStore(read_only, create=False) as store:
            assert store.deployment().schema_version == SCHEMA_VERSION
        assert "read-only" in told(StoreUnavailable, read_only, patient=False)

    def test_rights_that_were_never_given(self, guarded):
        """Whoever looks is told what a look needs, whoever writes what that needs."""
        full = guarded.address.replace("/postgres?", "/full?")
        execute(full, "CREATE ROLE reader LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        try:
            said = "permission denied for table .* expected a role with SELECT,"
            address = address_of(guarded, "reader", "full")
            with PostgresTaskStore(address) as store:
                with pytest.raises(RightsMissing, match=said):
                    stored_run(store)
                execute(full, "REVOKE SELECT ON tasks FROM reader")
                for look in (store.stats, lambda: store.survey(still=TTL)):
                    with pytest.raises(RightsMissing, match="table tasks; expected a role with SELECT on"):
                        look()
        finally:
            execute(full, "DROP OWNED BY reader", "DROP ROLE reader")

    def test_a_check_looks_at_the_tables_of_chong_alone(self, guarded):
        """A stranger's, of the same owner in the same schema, and the months of the trail need no right."""
        full = guarded.address.replace("/postgres?", "/full?")
        execute(full, "CREATE TABLE strangers (name text)", "CREATE ROLE carl LOGIN")
        try:
            with psycopg.connect(full) as connection:
                asked = (
                    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
                    " AND NOT relispartition AND relname <> 'strangers' ORDER BY relname"
                )
                tables = [name for (name,) in connection.execute(asked)]
            execute(full, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(tables)} TO carl")
            with PostgresTaskStore(address_of(guarded, "carl", "full"), create=False) as store:
                store.check_serving()
                run = stored_run(store, 9)
                assert store.history(run.id)
                for table in tables:
                    execute(full, f"REVOKE UPDATE ON {table} FROM carl")
                    with pytest.raises(ConfigurationError, match=rf"got one without that on {table}$"):
                        store.check_serving()
                    execute(full, f"GRANT UPDATE ON {table} TO carl")
        finally:
            execute(full, "DROP OWNED BY carl", "DROP ROLE carl", "DROP TABLE strangers")

    def test_rights_that_were_taken_away_are_waited_for(self, guarded):
        """What runs goes on meanwhile: they may be given back."""
        full = guarded.address.replace("/postgres?", "/full?")
        execute(full, "CREATE ROLE bob LOGIN SUPERUSER")
        try:
            with PostgresTaskStore(address_of(guarded, "bob", "full")) as store:
                run = stored_run(store)
                execute(full, "ALTER ROLE bob NOSUPERUSER")
                with pytest.raises(StoreUnavailable, match="permission denied"):
                    store.get(run.id)
                # The first renewal has a connection of its own, and knows that it had worked.
                with pytest.raises(StoreUnavailable, match="permission denied"):
                    store.renew(TERM, [run.id], TTL)
        finally:
            execute(full, "DROP ROLE bob", "TRUNCATE tasks, leases, transitions")

    def test_a_password_that_was_changed_is_waited_for(self, guarded):
        """Also by renewals, whose first connection is made later than the other calls'."""
        execute(guarded.address, "ALTER ROLE locked PASSWORD 'right' SUPERUSER")
        with PostgresTaskStore(address_of(guarded, "locked", "full", password="right")) as store:
            run = stored_run(store)
            execute(guarded.address, "ALTER ROLE locked PASSWORD 'another'")
            with pytest.raises(StoreUnavailable, match="password authentication failed"):
                store.renew(TERM, [run.id], TTL)
            execute(guarded.address, "ALTER ROLE locked PASSWORD 'right'")

            def renewed() -> bool:
                with contextlib.suppress(StoreUnavailable):  # an attempt of before may be told late
                    return store.renew(TERM, [run.id], timedelta(seconds=9)) == set()
                return False

            wait_until(renewed, "a renewal")
        execute(guarded.address, "ALTER ROLE locked PASSWORD 'right-s3cret' NOSUPERUSER")
        execute(guarded.address.replace("/postgres?", "/full?"), "TRUNCATE tasks, leases, transitions")


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("postgresql://u:s3cret@h:99999999/x", "port: expected a number from 1 to 65535, got 99999999"),
            ("postgresql://u:s3cret@h:0/x", "port: expected a number from 1 to 65535, got 0"),
            (
                "postgresql://u:s3cret@a:5432,b:-1/x",
                "port: expected a number from 1 to 65535, got text that is no number",
            ),
            ("host=h user=u password=s3cret", "got key=value words of libpq"),
            ("mysql://u:s3cret@h/x", "got mysql:"),
        ],
    )
    def test_what_is_no_address_is_refused_before_anything_is_asked(self, address, expected):
        """By those who only check it, too."""
        for use in (check_address, open_store):
            with pytest.raises(ConfigurationError) as refused:
                use(address)
            assert expected in str(refused.value)
            assert SECRET not in str(refused.value)

    def test_digits_that_may_be_a_password_are_not_shown(self):
        """Who forgets the host has the password where the port belongs."""
        with pytest.raises(ConfigurationError) as refused:
            check_address("postgresql://ann:99887766/x")
        assert "99887766" not in str(refused.value)

    def test_a_host_without_a_port_has_the_usual_one(self):
        """Beside others that name theirs."""
        check_address("postgresql://u@a,b:5433/x")


def test_a_refused_value_is_none_of_the_servers_faults(guarded):
    """It costs its own call."""
    with (
        PostgresTaskStore(guarded.address.replace("/postgres?", "/full?")) as store,
        pytest.raises(Refused),
    ):
        stored_queued(store, name="nul\0")
