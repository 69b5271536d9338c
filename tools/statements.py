"""Which statements a store sends for a call, and how the server carries each of them out."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

import psycopg
from psycopg.rows import DictRow

from chong.store import postgres_pool
from chong.store.postgres_connection import Connection

_NOT_EXPLAINABLE = ("SET", "LOCK", "SELECT set_config(", "SELECT\n    set_config(")
_SKIPPED_NODES = {"Result", "Subquery Scan", "ProjectSet", "Materialize", "Hash", "Sort", "Memoize", "LockRows"}


@dataclass(frozen=True)
class Statement:
    """Planning and execution in the server; all 0 where it was planned only.

    `milliseconds` by the clock, `cpu_milliseconds` of the connection's own server process, which a busy machine does
    not stretch: 0 where the server is not on this machine. `buffers`: pages of 8 KiB that were looked at.
    """

    text: str
    plan: Mapping[str, Any]
    milliseconds: float = 0.0
    cpu_milliseconds: float = 0.0
    buffers: int = 0

    @property
    def whole_tables(self) -> set[str]:
        """The tables that are read from end to end."""
        return {node["Relation Name"] for node in _nodes(self.plan) if node["Node Type"] == "Seq Scan"}

    @property
    def short_plan(self) -> str:
        return _short(self.plan)


@contextmanager
def explained(*, analyze: bool) -> Iterator[list[Statement]]:
    """Every statement that stores send within, in order; the bounds that a transaction sets itself are left out.

    analyze: carry each out once before, in a transaction that is undone, to see what it takes; else plan it only.
    """
    found: list[Statement] = []

    class Explained(postgres_pool.Statements):
        def execute(self, query: str, values: Mapping[str, Any], /) -> psycopg.Cursor[DictRow]:
            if not query.startswith(_NOT_EXPLAINABLE):
                found.append(_explain(self._connection, query, {**values, **self._always}, analyze=analyze))
            return super().execute(query, values)

    with mock.patch.object(postgres_pool, "Statements", Explained):
        yield found


def _explain(connection: Connection, query: str, values: Mapping[str, Any], *, analyze: bool) -> Statement:
    options = "ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON" if analyze else "FORMAT JSON"
    with connection.transaction(force_rollback=True):
        # Whatever was sent before is through.
        connection.execute("SELECT").fetchall()
        before = _cpu(connection)
        row = connection.execute(cast("Any", f"EXPLAIN ({options}) {query}"), values).fetchall()[0]
        cpu = _cpu(connection) - before
    told = row["QUERY PLAN"]
    report = (json.loads(told) if isinstance(told, str) else told)[0]
    plan = report["Plan"]
    if not analyze:
        return Statement(query, plan)
    spent = report["Planning Time"] + report["Execution Time"]
    return Statement(query, plan, spent, cpu * 1000, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _cpu(connection: Connection) -> float:
    """Seconds of processor that the connection's server process has had."""
    try:
        return int(Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _named(node: Mapping[str, Any]) -> str:
    """The kind of a node and what it reads; a month's table stands for all of them."""
    source = node.get("Index Name") or node.get("Relation Name") or node.get("CTE Name") or node.get("Function Name")
    return re.sub(r"_\d{4}_\d\d", "_MONTH", " ".join(filter(None, [str(node["Node Type"]), source])))


def _short(plan: Mapping[str, Any]) -> str:
    parts = list(dict.fromkeys(filter(None, map(_short, plan.get("Plans", ())))))
    if plan["Node Type"] in _SKIPPED_NODES and parts:
        return ", ".join(parts)
    return _named(plan) + (f" ({', '.join(parts)})" if parts else "")
