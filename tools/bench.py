"""Measure chong, as ratios within one run, and write build/bench.json.

Every figure stands beside what it is to be compared with, measured in the same minutes on the same machine. What cannot
be measured is left out, with its reason on the screen. Name figures to measure only those: `tools/bench.py cli_ps_ms`.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from bench_client import clients
from bench_crash import INTERVAL, storm
from bench_leases import renewal, soaks
from bench_node import SCRIPTS, BenchError, Node, submission, wait_until
from bench_plans import large_store
from bench_polls import polls
from bench_schedule import schedule_rest
from bench_server import server, silence
from figure import Figure

from chong.store.errors import ChongError
from chong.store.ids import new_id
from chong.store.query import TaskQuery
from chong.store.states import Status
from chong.supervisor.client import Client

OUTPUT = Path(__file__).resolve().parent.parent / "build" / "bench.json"
MIB = 1024 * 1024
POLL_SECONDS = 1.0
NOOPS = 1500
CLIENTS = 4
PARALLELS = (8, 16)
STARTS = 60
STOPS = 24
WORKERS = 200
CALLS_OF_PS = 15


def fork_limit_and_noops() -> Iterable[Figure]:
    """The most that forking allows, and what is left of it with everything else around; taken in turns."""
    from bench_fork import best_rate  # noqa: PLC0415 - it may be what fails

    before = best_rate()
    file = max(_noop_rate(parallel) for parallel in PARALLELS)
    shared = max(_shared_noop_rate(parallel) for parallel in PARALLELS)
    limit = max(before, best_rate())
    yield Figure("fork_limit", limit, "tasks/s")
    yield Figure("noop_sqlite", file, "tasks/s", file / limit, "fork_limit")
    yield Figure("noop_postgres", shared, "tasks/s", shared / limit, "fork_limit")


def _shared_noop_rate(parallel: int) -> float:
    with server() as running:
        return _noop_rate(parallel, running.address)


def _noop_rate(parallel: int, address: str | None = None) -> float:
    """Tasks per second, from the first acceptance to the last stored result, by the stored times."""
    with Node("--max-parallel", str(parallel), address=address) as node:
        ids = [new_id() for _ in range(NOOPS)]
        parts = [[submission("bench.noop", id_) for id_ in ids[first::CLIENTS]] for first in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(node.ask, parts))
        wait_until("the no-op tasks ended", lambda: node.store.stats()[Status.SUCCEEDED] == NOOPS, 90, look=0.25)
        trails = [node.store.history(id_) for id_ in ids]
        begin = min(trail[0].at for trail in trails)
        return NOOPS / (max(_stored(trail[-1].stored_at) for trail in trails) - begin).total_seconds()


def _stored(moment: datetime | None) -> datetime:
    if moment is None:
        raise BenchError("a stored transition has no stored_at")
    return moment


def starts() -> Iterable[Figure]:
    """One task at a time on an idle node: accepted → user code begins."""
    with Node() as node:
        waits = sorted(_start_wait(node) for _ in range(STARTS))
    against = "limit of 20 ms at p50"
    p50, p99 = statistics.median(waits), waits[round(0.99 * (STARTS - 1))]
    yield Figure("accepted_to_started_p50", p50, "ms", p50 / 20, against)
    yield Figure("accepted_to_started_p99", p99, "ms")


def _start_wait(node: Node) -> float:
    ids = node.submit("bench.noop")
    node.wait_final(ids)
    at = {step.target: step.at for step in node.store.history(ids[0])}
    return (at[Status.RUNNING] - at[Status.QUEUED]).total_seconds() * 1000


def stops() -> Iterable[Figure]:
    """Command row committed → the worker says `stopping`, at moments spread over the poll interval."""
    with Node("--poll-seconds", str(POLL_SECONDS), "--max-parallel", str(STOPS)) as node:
        ids = node.submit("bench.sleep", STOPS)
        _wait_running(node, ids)
        client = Client(node.store, issued_by="bench")
        for turn, id_ in enumerate(ids):
            client.stop(id_)
            time.sleep(POLL_SECONDS * (0.13 + turn / STOPS / 4))  # no wait for anything: it spreads the moments
        node.wait_final(ids)
        notices = sorted(_notice(node, id_) for id_ in ids)
    limit, against = POLL_SECONDS * 1000 + 50, "poll interval + 50 ms"
    for name, notice in (("p50", statistics.median(notices)), ("max", notices[-1])):
        yield Figure(f"stop_to_notice_{name}", notice, "ms", notice / limit, against)


def shared_stops() -> Iterable[Figure]:
    """`chong stop` of another process over PostgreSQL, with the bell that it rings at the node and without."""
    for name, is_silent in (("stop_postgres", False), ("stop_postgres_silent", True)):
        with server() as running:
            if is_silent:
                silence(running.address)
            notices = _notices_of_processes(running.address)
        if is_silent:
            limit, against = POLL_SECONDS * 1000 + 100, "poll interval + 100 ms"
            yield Figure(f"{name}_max", notices[-1], "ms", notices[-1] / limit, against)
        else:
            p50 = statistics.median(notices)
            yield Figure(f"{name}_p50", p50, "ms", p50 / 100, "limit of 100 ms")


def _notices_of_processes(address: str) -> list[float]:
    with Node("--poll-seconds", str(POLL_SECONDS), "--max-parallel", str(STOPS), address=address) as node:
        ids = node.submit("bench.sleep", STOPS)
        _wait_running(node, ids)
        for id_ in ids:  # a new process takes some time, which spreads the moments
            subprocess.run([SCRIPTS / "chong", "stop", id_], env=node.environment, check=True, capture_output=True)  # noqa: S603
        node.wait_final(ids)
        return sorted(_notice(node, id_) for id_ in ids)


def _notice(node: Node, task_id: str) -> float:
    task = node.store.get(task_id)
    if task is None or task.stop is None or task.stop.acknowledged_at is None:
        raise BenchError("a stopped task has no acknowledged_at")
    issued = node.store.commands(task_id)[0].issued_at
    return (task.stop.acknowledged_at - issued).total_seconds() * 1000


def memory() -> Iterable[Figure]:
    """Proportional memory of many sleeping workers and of the supervisor that has them."""
    with Node("--max-parallel", str(WORKERS)) as node:
        _wait_running(node, node.submit("bench.sleep", WORKERS))
        sizes = [_pss(worker.pid) for worker in node.workers()]
        if len(sizes) != WORKERS:
            raise BenchError(f"expected {WORKERS} worker processes, found {len(sizes)}")
        mean, supervisor = statistics.mean(sizes), _pss(node.supervisor.pid)
    yield Figure("worker_pss_mib", mean, "MiB", mean / 4, "limit of 4 MiB")
    yield Figure("supervisor_pss_mib", supervisor, "MiB", supervisor / 80, "limit of 80 MiB")


def _pss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MIB
    raise BenchError("this kernel's smaps_rollup has no Pss")


def checkpoint() -> Iterable[Figure]:
    """A checkpoint with nothing to send, inside a real worker, beside an empty method."""
    with Node() as node:
        ids = node.submit("bench.checkpoint")
        node.wait_final(ids)
        task = node.store.get(ids[0])
    if task is None or not isinstance(task.outcome, dict):
        raise BenchError(f"bench.checkpoint ended as {task and task.status}: {task and task.failure}")
    call, empty = task.outcome["checkpoint"], task.outcome["method"]
    yield Figure("checkpoint_call", call, "ns", call / empty, "an empty method call")


def crashes() -> Iterable[Figure]:
    """A storm of segfaults, and the renewals of a bystander's lease in it."""
    rate, gap = storm()
    yield Figure("crashes", rate, "tasks/s", rate / 100, "100 crashes a second")
    yield Figure("renewal_gap_in_crashes", gap * 1000, "ms", gap / (2 * INTERVAL), "twice the renewal interval")


def command_line() -> Iterable[Figure]:
    """`chong ps` as a whole process, with some running tasks and many final ones in the store."""
    with Node("--max-parallel", "8") as node:
        node.wait_final(node.submit("bench.noop", 200))
        _wait_running(node, node.submit("bench.sleep", 8))
        spent = statistics.median(_ps_milliseconds(node) for _ in range(CALLS_OF_PS))
    yield Figure("cli_ps_ms", spent, "ms", spent / 250, "limit of 250 ms")


def _ps_milliseconds(node: Node) -> float:
    begin = time.perf_counter()
    subprocess.run([SCRIPTS / "chong", "ps"], env=node.environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return (time.perf_counter() - begin) * 1000


def _wait_running(node: Node, ids: list[str]) -> None:
    running = TaskQuery(statuses=frozenset({Status.RUNNING}), names=frozenset({"bench.sleep"}), limit=len(ids))
    wait_until("the sleeping tasks run", lambda: len(node.store.query(running)) == len(ids))


MEASUREMENTS: dict[Callable[[], Iterable[Figure]], tuple[str, ...]] = {
    fork_limit_and_noops: ("fork_limit", "noop_sqlite", "noop_postgres"),
    starts: ("accepted_to_started_p50", "accepted_to_started_p99"),
    stops: ("stop_to_notice_p50", "stop_to_notice_max"),
    memory: ("worker_pss_mib", "supervisor_pss_mib"),
    checkpoint: ("checkpoint_call",),
    crashes: ("crashes", "renewal_gap_in_crashes"),
    command_line: ("cli_ps_ms",),
    clients: ("client_submit_p50", "client_submit_p99", "client_rate"),
    shared_stops: ("stop_postgres_p50", "stop_postgres_silent_max"),
    polls: ("poll_100",),
    renewal: ("renew_1000",),
    soaks: ("lease_soak", "lease_soak_long_transaction"),
    schedule_rest: ("schedule_rest",),
    large_store: ("large_store",),
}


def main(wanted: list[str]) -> int:
    names = [name for group in MEASUREMENTS.values() for name in group]
    strangers = set(wanted) - set(names)
    if strangers:
        say(f"expected names of figures ({', '.join(names)}), got {', '.join(sorted(strangers))}")
        return 2
    figures: list[Figure] = []
    for measure, group in MEASUREMENTS.items():
        if not wanted or set(wanted) & set(group):
            figures += _measured(measure, group)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n", encoding="utf-8")
    return 0 if figures else 1


def _measured(measure: Callable[[], Iterable[Figure]], group: tuple[str, ...]) -> list[Figure]:
    try:
        figures = list(measure())
    except (BenchError, ChongError, OSError, ImportError, subprocess.SubprocessError) as error:
        say(f"{', '.join(group)}: not measured: {type(error).__name__}: {error}")
        return []
    for figure in figures:
        compared = "" if figure.ratio is None else f"{figure.ratio:8.2f} of {figure.against}"
        say(f"{figure.name:<28}{figure.value:>10.1f} {figure.unit:<8}{compared}")
    return figures


def say(line: Any) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
