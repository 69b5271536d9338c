"""Addresses of PostgreSQL stores: what is wrong is told in one line, and whatever the driver takes is taken."""

import socket
import subprocess
import sys

import pytest
from pg_server import execute, url_of
from postgres_refusal import refusal
from psycopg import conninfo

from chong.store.errors import ConfigurationError, StoreUnavailable
from chong.store.open import check_address, open_store
from chong.store.postgres import PostgresTaskStore
from chong.store.postgres_address import label_of, parsed
from chong.store.specimens import stored_queued

DEADLINE = 1.0
LIMIT = 20.0


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
            ("postgresql://u:s3c@ret@h/x", "user or password: expected an @ in it as %40, got it as it is"),
            ("postgresql://u:s3c/ret@h/x", "user or password: expected a / in it as %2F, got it as it is"),
            ("postgresql://u:s3c/r?et@h/x", "user or password: expected a / in it as %2F, got it as it is"),
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
