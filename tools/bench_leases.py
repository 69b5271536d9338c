"""What the renewals of a thousand runs cost PostgreSQL, and what they leave behind over the minutes.

As a program it soaks for longer: `bench_leases.py MINUTES` prints a line for every ten seconds.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

import psycopg
from bench_node import BenchError
from bench_server import server
from figure import Figure
from operations import TERM, new_runs
from statements import explained

from chong.store.postgres import PostgresTaskStore

RUNS = 1000
TTL = timedelta(seconds=30)
TURNS = 30
EVERY = 1.0
"""Seconds between two renewals: five times as often as a node with default settings renews."""
SOAK_SECONDS = 60.0
LOOK_SECONDS = 10.0
KIB = 1024


def renewal() -> Iterable[Figure]:
    """A thousand runs in one statement, beside one run in one."""
    with server() as running, PostgresTaskStore(running.address) as store:
        ids = new_runs(store, RUNS)
        with explained(analyze=False) as sent:
            store.renew(TERM, ids, TTL)
        if len(sent) != 1:
            raise BenchError(f"expected one statement for {RUNS} runs, got {len(sent)}")
        one, all_of_them = (
            median(_milliseconds(lambda: store.renew(TERM, some, TTL)) for _ in range(TURNS))  # noqa: B023 - called here
            for some in (ids[:1], ids)
        )
    yield Figure("renew_1000", all_of_them, "ms", all_of_them / one, "a renewal of one run; one statement each")


def _milliseconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


@dataclass(frozen=True)
class Look:
    """The table `leases`, and the one that renewals write to, at one moment.

    leases, renewals: bytes of the tables with their indexes.
    dead: versions of rows of `leases` that nobody needs any more.
    number: how often the term has renewed its leases.
    """

    seconds: float
    leases: int
    dead: int
    renewals: int
    number: int

    def __str__(self) -> str:
        leases = f"leases {self.leases / KIB:5.0f} KiB, {self.dead:5} dead"
        return f"{self.seconds:6.0f} s: {leases}; renewals {self.renewals / KIB:5.0f} KiB, {self.number:5} of them"


def soaks() -> Iterable[Figure]:
    """The table `leases` after a minute of renewals, alone and beside a transaction that stays open."""
    for name, is_held in (("lease_soak", False), ("lease_soak_long_transaction", True)):
        first, *_, last = soak(SOAK_SECONDS, long_transaction=is_held)
        yield Figure(name, last.leases / KIB, "KiB", last.leases / first.leases, "its size before")
        yield Figure(
            f"{name}_dead", last.dead, "row versions", last.dead / RUNS, f"{RUNS} runs, {last.number} renewals"
        )


def soak(seconds: float, *, long_transaction: bool, told: Callable[[Look], object] = lambda _: None) -> list[Look]:
    """Renew all runs again and again, with autovacuum as a server has it by default."""
    looks: list[Look] = []
    with server({"autovacuum_naptime": "60s"}) as running, PostgresTaskStore(running.address) as store:
        ids = new_runs(store, RUNS)
        with psycopg.connect(running.address, autocommit=True) as observer:
            begin = time.monotonic()
            with _renewing(store, ids), _open_transaction(running.address) if long_transaction else nullcontext():
                while not looks or looks[-1].seconds < seconds:
                    looks.append(_look(observer, time.monotonic() - begin))
                    told(looks[-1])
                    time.sleep(min(LOOK_SECONDS, max(0.1, seconds - looks[-1].seconds)))
    return looks


@contextmanager
def _renewing(store: PostgresTaskStore, ids: list[str]) -> Iterator[None]:
    ended = threading.Event()
    missing: set[str] = set()

    def renew() -> None:
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            missing.update(store.renew(TERM, ids, TTL))
            due += EVERY

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if missing:
        raise BenchError(f"{len(missing)} leases were not found at a renewal")


@contextmanager
def _open_transaction(address: str) -> Iterator[None]:
    """One that sees the store as it stood at its beginning, and so keeps every row version since."""
    with psycopg.connect(address) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM leases")
        yield


def _look(connection: psycopg.Connection, seconds: float) -> Look:
    row = connection.execute(
        "SELECT pg_total_relation_size('leases'), n_dead_tup, pg_total_relation_size('renewals'),"
        " coalesce((SELECT number FROM renewals), 0)"
        " FROM pg_stat_user_tables WHERE relname = 'leases'"
    ).fetchone()
    if row is None:
        raise BenchError("there is no table leases")
    return Look(seconds, *row)


def main(words: list[str]) -> int:
    if len(words) != 1 or not words[0].isdecimal():
        sys.stderr.write("expected MINUTES\n")
        return 2
    for is_held in (False, True):
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {'beside a long transaction' if is_held else 'alone'}:")
        soak(60.0 * int(words[0]), long_transaction=is_held, told=lambda look: print(look, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
