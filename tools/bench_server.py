"""A PostgreSQL server of the benchmark's own, the same programs that the tests start."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import psutil
import psycopg
from pg_server import Server

# As a server is set up that somebody relies on, but for what a crash would cost; autovacuum looks often.
SETTINGS = {
    "shared_buffers": "512MB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "300",
    "autovacuum_naptime": "5s",
}


@contextmanager
def server(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Running, with nothing in it, and gone afterwards; `settings` go before the usual ones."""
    with Server(settings={**SETTINGS, **(settings or {})}) as running:
        yield running


def silence(address: str) -> None:
    """No bell rings any more, as behind a pooler that gives each transaction another connection."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA mute")
        connection.execute("CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''")
        connection.execute("ALTER DATABASE postgres SET search_path = mute, pg_catalog, public")


def processor_seconds(running: Server) -> float:
    """What the server with all its processes has used so far, those that have ended too."""
    main = psutil.Process(running.pid)
    family = [process.cpu_times() for process in (main, *main.children(recursive=True))]
    gone = main.cpu_times()
    return sum(times.user + times.system for times in family) + gone.children_user + gone.children_system
