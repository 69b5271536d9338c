"""A real PgBouncer of the tests' own, which gives each transaction another of its few connections to the server."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from needs import program
from pg_server import DIE_WITH_PARENT, url_of
from psycopg import conninfo
from waiting import wait_until

PORT = 6432
"""Of its socket, which lies in a directory of its own."""
SETTINGS = {"pool_mode": "transaction", "default_pool_size": "2", "auth_type": "trust"}


class Pooler:
    """Leads to all databases of the server of this address; `settings` are further ones of its own."""

    def __init__(self, address: str, settings: Mapping[str, str] | None = None) -> None:
        self._program = program("pgbouncer")
        self.place = Path(tempfile.mkdtemp(prefix="chong-pooler-", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root, as the server does.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.place, self._user)
        self._write_config(conninfo.conninfo_to_dict(address), settings or {})

    def _write_config(self, server: Mapping[str, object], settings: Mapping[str, str]) -> None:
        target = {name: str(value) for name, value in server.items() if name != "dbname" and value is not None}
        files = {name: f"{self.place}/{name}" for name in ("logfile", "pidfile", "auth_file")}
        own = {"unix_socket_dir": str(self.place), "listen_port": str(PORT), **files, **SETTINGS, **settings}
        lines = ["[databases]", f"* = {conninfo.make_conninfo('', **target)}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in own.items()]
        (self.place / "auth_file").write_text(f'"{target.get("user", "chong")}" ""\n')
        (self.place / "config").write_text("\n".join(lines) + "\n")

    def of(self, address: str) -> str:
        """The address by which a database of the server is reached through it."""
        return url_of(conninfo.conninfo_to_dict(address) | {"host": str(self.place), "port": PORT})

    def start(self) -> Self:
        self._process = subprocess.Popen(
            [*DIE_WITH_PARENT, self._program, "-q", self.place / "config"],
            user=self._user,
            stdin=subprocess.DEVNULL,
            cwd=self.place,
        )
        wait_until(self._is_listening, "the pooler's socket")
        return self

    def _is_listening(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.place / "logfile").read_text()
        return (self.place / f".s.PGSQL.{PORT}").exists()

    def stop(self) -> None:
        """At once, whatever is under way."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        self._process = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.place)
