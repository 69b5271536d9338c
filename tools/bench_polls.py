"""What many nodes cost a PostgreSQL server while nothing is asked of them."""

import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack

from bench_node import BenchError
from bench_server import processor_seconds, server
from figure import Figure

from chong.store.postgres import PostgresTaskStore
from chong.supervisor.commands import CommandPoller
from chong.supervisor.ticker import Ticker

NODES = 100
EVERY = 1.0
WARM_SECONDS = 5.0
SECONDS = 20.0


def polls() -> Iterable[Figure]:
    """The share of one core that the server uses while a hundred nodes look for commands once a second."""
    errors: list[Exception] = []
    with server() as running, ExitStack() as ends:
        PostgresTaskStore(running.address).close()
        tickers = []
        for number in range(NODES):
            store = ends.enter_context(PostgresTaskStore(running.address, patient=True))
            poller = CommandPoller(
                store,
                f"node-{number}",
                f"node-{number}.1",
                every=EVERY,
                on_commands=lambda _: None,
                known=lambda: 0,  # as it stands: no hold was ever placed
                on_holds=lambda _: None,
                on_error=errors.append,
                on_success=lambda: None,
                on_unreadable=lambda _: None,
            )
            tickers.append(Ticker(f"poll-{number}", poller.poll, on_fault=lambda _: None))
        wait = threading.Event().wait
        for ticker in tickers:
            ticker.start()
            wait(EVERY / NODES)  # as nodes do that were started one by one
        wait(WARM_SECONDS)
        begin, before = time.monotonic(), processor_seconds(running)
        wait(SECONDS)
        share = (processor_seconds(running) - before) / (time.monotonic() - begin)
        for ticker in tickers:
            ticker.close(EVERY)
    if errors:
        raise BenchError(f"a poll failed: {errors[0]}")
    yield Figure("poll_100", share, "cores", share / 0.25, "a quarter of a core")
