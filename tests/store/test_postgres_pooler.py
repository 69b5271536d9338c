"""The whole contract through a pooler that gives each transaction another server connection."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pg_server import DIE_WITH_PARENT, Databases, url_of
from psycopg import conninfo

from chong.store.conformance import StoreContract
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import SetClock

POOLER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
PORT = 6432
CONFIG = """
[databases]
* = {target}
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
unix_socket_dir = {place}
listen_port = {port}
auth_type = trust
auth_file = {place}/users
logfile = {place}/log
pidfile = {place}/pid
"""

pytestmark = pytest.mark.skipif(POOLER is None, reason="no pgbouncer on this machine: apt install pgbouncer")


@pytest.fixture(scope="module")
def pooler(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of its socket."""
    place = Path("/tmp") / f"chong-pooler-{os.getpid()}"
    place.mkdir()
    target = {name: value for name, value in conninfo.conninfo_to_dict(databases.address).items() if name != "dbname"}
    (place / "users").write_text(f'"{target.get("user", "chong")}" ""\n')
    (place / "config").write_text(
        CONFIG.format(target=conninfo.make_conninfo("", **target), place=place, port=PORT)  # type: ignore[arg-type]
    )
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        shutil.chown(place, user)
    process = subprocess.Popen(
        [*DIE_WITH_PARENT, str(POOLER), "-q", place / "config"], user=user, stdin=subprocess.DEVNULL, cwd=place
    )
    try:
        end = time.monotonic() + 20
        while not (place / f".s.PGSQL.{PORT}").exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        yield place
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        shutil.rmtree(place)


class TestPooled(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, emptied: str, pooler: Path) -> None:
        self.address = url_of(conninfo.conninfo_to_dict(emptied) | {"host": str(pooler), "port": PORT})

    def make_store(self, clock: SetClock) -> PostgresTaskStore:
        return PostgresTaskStore(self.address, clock=clock)

    def test_calls_share_fewer_connections_than_there_are_clients(self, store: PostgresTaskStore) -> None:
        """It is really the pooler that is spoken to."""
        with psycopg.connect(self.address) as one, psycopg.connect(self.address) as two:
            pids = []
            for connection in (one, two, one, two):
                row = connection.execute("SELECT pg_backend_pid()").fetchone()
                assert row is not None
                pids.append(row[0])
                connection.commit()
        assert len(set(pids)) < len(pids)
