"""What crashes cost a node: how many a second it takes, and how its renewals keep time meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise

from bench_node import BenchError, Node

LEASE_SECONDS = 6.0
INTERVAL = LEASE_SECONDS / 6
CRASHES = 1000
LOOK = 0.05


def storm() -> tuple[float, float]:
    """Segfaults a second, by the stored times, and the longest time between two renewals, in seconds."""
    with Node("--max-parallel", "16", "--breaker-crashes", "never", "--lease-seconds", str(LEASE_SECONDS)) as node:
        bystander = node.submit("bench.sleep")[0]
        with renewals(node, bystander) as moments:
            ids = node.submit("bench.crash", CRASHES)
            node.wait_final(ids)
        trails = [node.store.history(id_) for id_ in ids]
    ends = [trail[-1].stored_at for trail in trails]
    if len(moments) < 3 or None in ends:  # noqa: PLR2004 - two gaps are the least that can tell
        raise BenchError("the storm was over before two renewals, or an end was not stored")
    begin = min(trail[0].at for trail in trails)
    spent = (max(end for end in ends if end is not None) - begin).total_seconds()
    return CRASHES / spent, max((later - earlier).total_seconds() for earlier, later in pairwise(moments))


@contextmanager
def renewals(node: Node, task_id: str) -> Iterator[list[datetime]]:
    """When a task's lease was renewed, by the store's clock."""
    moments: list[datetime] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK):
            for lease in node.store.leases([task_id]):
                if (moment := lease.until - lease.ttl) not in moments[-1:]:
                    moments.append(moment)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield moments
    finally:
        ended.set()
        thread.join()
