"""What people and nodes ask of a PostgreSQL store that holds five million finished tasks, and how it is carried out.

As a program it writes the page of plans: `bench_plans.py PAGE [FINISHED]`. Filling the store takes some minutes and
6 GB in the directory for temporary files.
"""

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from bench_server import server
from figure import Figure
from large_store import LargeStore
from operations import COUNTING, OPERATIONS, Subjects
from statements import Statement, explained

from chong.store.postgres import PostgresTaskStore

FINISHED, OPEN = 5_000_000, 5_000
ROUNDS = 3
LIMIT = 50.0
CALL_SECONDS = 120.0
HEAD = """\
# How PostgreSQL carries out what is asked of it

Rendered by `tools/bench_plans.py`: {date}, PostgreSQL {version}, {machine} whose load was {load:.0f}. The store holds
{finished:,} finished tasks with four changes of state each, spread over a year, and {open:,} open ones, a fifth of them
running; eight nodes, 64 buckets, 200 names. Each line is the best of {rounds} calls.

`ms` is the time of all statements of the operation in the server, planning included; `CPU` is what its process used of
the processor for them, which other work on the machine does not stretch; that of parallel workers, below `Gather`, is
not in it. `pages` are those of 8 KiB that were looked at, with {finished:,} finished tasks and a tenth of them. The
plan is that of the longest statement, without sorts and the like; `MONTH` stands for the months by which the trail is
cut.

| operation | statements | ms | CPU | pages | pages at a tenth | plan |
| --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Measured:
    """One call of an operation, in the server."""

    statements: tuple[Statement, ...]

    @property
    def milliseconds(self) -> float:
        return sum(statement.milliseconds for statement in self.statements)

    @property
    def cpu_milliseconds(self) -> float:
        return sum(statement.cpu_milliseconds for statement in self.statements)

    @property
    def pages(self) -> int:
        return sum(statement.buffers for statement in self.statements)

    @property
    def plan(self) -> str:
        return max(self.statements, key=lambda statement: statement.cpu_milliseconds).short_plan


def measured(address: str) -> dict[str, Measured]:
    """The best call of each operation: the others have waited for pages, or for the processor."""
    with PostgresTaskStore(address, deadline=CALL_SECONDS) as store:
        found = {name: [_call(store, name) for _ in range(ROUNDS)] for name in OPERATIONS}
    return {name: min(calls, key=lambda call: call.milliseconds) for name, calls in found.items()}


def _call(store: PostgresTaskStore, name: str) -> Measured:
    subjects = Subjects.of(store)
    with explained(analyze=True) as statements:
        OPERATIONS[name](store, subjects)
    return Measured(tuple(statements))


def both_sizes(finished: int = FINISHED) -> tuple[dict[str, Measured], dict[str, Measured], str]:
    """At a tenth of so many finished tasks, and at all of them; and the server's version."""
    # By hand instead: a vacuum beside another one's look finds fewer pages that all may see.
    with server({"autovacuum": "off"}) as running:
        PostgresTaskStore(running.address).close()
        store = LargeStore(running.address)
        store.add_open(OPEN)
        store.grow(finished // 10)
        small = measured(running.address)
        store.grow(finished)
        with psycopg.connect(running.address) as connection:
            version = connection.info.parameter_status("server_version") or "of an unknown version"
        return small, measured(running.address), version


def large_store() -> Iterable[Figure]:
    """The operation that takes longest, and the one that grows most with what has ended; those that count aside."""
    small, large, _ = both_sizes()
    names = [name for name in OPERATIONS if name not in COUNTING]
    slowest = max(names, key=lambda name: large[name].cpu_milliseconds)
    spent = large[slowest].cpu_milliseconds
    yield Figure("large_store", spent, "ms", spent / LIMIT, f"limit of {LIMIT:.0f} ms of processor: {slowest}")
    growth = {name: large[name].cpu_milliseconds / small[name].cpu_milliseconds for name in names}
    most = max(growth, key=lambda name: growth[name])
    yield Figure("large_store_growth", growth[most], "times", growth[most], f"a tenth of the finished tasks: {most}")


def page(small: dict[str, Measured], large: dict[str, Measured], finished: int, version: str) -> str:
    head = HEAD.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        version=version,
        machine=f"{os.cpu_count()} cores of {_processor()}",
        load=os.getloadavg()[1],
        finished=finished,
        open=OPEN,
        rounds=ROUNDS,
    )
    return head + "".join(f"{_line(name, small[name], call)}\n" for name, call in large.items())


def _line(name: str, small: Measured, large: Measured) -> str:
    cells = (
        f"`{name}`",
        f"{len(large.statements)}",
        f"{large.milliseconds:.1f}",
        f"{large.cpu_milliseconds:.1f}",
        f"{large.pages:,}",
        f"{small.pages:,}",
        large.plan.replace("ModifyTable", "Write"),
    )
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def main(words: list[str]) -> int:
    if not 1 <= len(words) <= 2 or not all(word.isdecimal() for word in words[1:]):  # noqa: PLR2004
        sys.stderr.write("expected PAGE and, where wanted, the number of finished tasks\n")
        return 2
    finished = int(words[1]) if len(words) > 1 else FINISHED
    small, large, version = both_sizes(finished)
    Path(words[0]).write_text(page(small, large, finished, version), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
