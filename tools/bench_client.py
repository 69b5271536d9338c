"""How long a program on the node's machine waits when it submits by the client, each time on a new connection."""

import statistics
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from bench_node import Node
from figure import Figure

from chong.worker.client import Client

SUBMISSIONS = 300
SUSTAINED = 5000
CLIENTS = 4
NAME = "bench.noop"


def clients() -> Iterable[Figure]:
    """Accepted, on the node's disk and stored: one after the other on an idle node, and many at once beside it."""
    with Node() as node:
        client = Client(runtime_dir=node.state / "run")
        waits = sorted(_milliseconds(client) for _ in range(SUBMISSIONS))
    p50, p99 = statistics.median(waits), waits[round(0.99 * (SUBMISSIONS - 1))]
    yield Figure("client_submit_p50", p50, "ms", p50 / 5, "limit of 5 ms")
    yield Figure("client_submit_p99", p99, "ms")
    rate = _rate()
    yield Figure("client_rate", rate, "tasks/s", rate / 500, "500 a second")


def _milliseconds(client: Client) -> float:
    """The task ends before the next one is submitted."""
    begin = time.perf_counter()
    task_id = client.submit(NAME)
    spent = time.perf_counter() - begin
    client.result(task_id)
    return spent * 1000


def _rate() -> float:
    """Submissions per second over so many; they wait, as starting them is another figure's business."""
    with Node() as node:
        client = Client(runtime_dir=node.state / "run")
        client.result(client.submit(NAME))  # the task modules are loaded
        node.ask([{"op": "hold", "names": [NAME], "by": "bench", "reason": None}])
        begin = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda _: client.submit(NAME), range(SUSTAINED)))
        return SUSTAINED / (time.perf_counter() - begin)
