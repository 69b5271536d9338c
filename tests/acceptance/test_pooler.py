"""Two nodes and the command line reach their store through a pooler that gives each transaction another connection."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import psycopg
import pytest
from node_bench import Enter, S, Supervised, key_of, wait_until
from pg_server import Databases
from pooler import Pooler
from psycopg import conninfo

FORGETFUL = {"server_reset_query": "DISCARD ALL", "server_reset_query_always": "1"}
"""Nothing of a session outlives its transaction, LISTEN least of all: no bell ever rings."""
HALVES = {"one": (0, 31), "two": (32, 63)}


@pytest.fixture
def pooler(databases: Databases) -> Iterator[Pooler]:
    with Pooler(databases.address, FORGETFUL) as pooler:
        yield pooler


@pytest.fixture
def database(database: str, pooler: Pooler) -> str:
    """Whoever shares the store knows it by this address only."""
    return pooler.of(database)


@pytest.fixture
def pair(fleet: Enter) -> list[Supervised]:
    words = {name: ("--num-buckets", "64", "--owned-buckets", f"{low}-{high}") for name, (low, high) in HALVES.items()}
    return [fleet("--node", name, *more) for name, more in words.items()]


def begun(pair: list[Supervised], name: str, **params: object) -> list[str]:
    """A task of each node."""
    halves = zip(pair, HALVES.values(), strict=True)
    return [node.begun(name, key=key_of(*half), **params) for node, half in halves]


def connections_to(database: str, databases: Databases) -> int:
    """How many the server sees, but for the one that asks."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(databases.of(str(conninfo.conninfo_to_dict(database)["dbname"]))) as connection:
        [(count,)] = connection.execute(asked).fetchall()
    return int(count)


def test_what_two_nodes_run_is_controlled_through_a_pooler(
    pair: list[Supervised], outside: Supervised, database: str, databases: Databases
):
    """Seen, paused, resumed and stopped from a machine without a node, without a bell, over two connections."""
    ids = begun(pair, "hold")
    assert {row["id"]: row["node"] for row in outside.cli("ps", "--json").json} == dict(zip(ids, HALVES, strict=True))
    assert outside.cli("pause", *ids, "--wait").code == 0
    assert [outside.task(task_id).status for task_id in ids] == [S.PAUSED] * 2
    assert outside.cli("resume", *ids, "--wait").code == 0
    assert outside.cli("stop", *ids, "--wait", "--as", "olga").code == 0
    for task in map(outside.task, ids):
        assert (task.status, task.stop.by) == (S.STOPPED, "olga")
        moments = [task.stop.asked_at, task.stop.delivered_at, task.stop.acknowledged_at, task.stop.effective_at]
        assert all(earlier <= later for earlier, later in pairwise(moments)), moments
    assert 1 <= connections_to(database, databases) <= 2


def test_a_restart_of_the_pooler_loses_nothing(pair: list[Supervised], outside: Supervised, pooler: Pooler):
    """What ends and what is accepted meanwhile is stored afterwards, a pause stays one, and each task has run once."""
    paused = begun(pair, "hold")
    assert outside.cli("pause", *paused, "--wait").code == 0
    ids = begun(pair, "until", path=str(outside.root / "open"))
    pooler.stop()
    for node in pair:
        wait_until(lambda: node.events("store_away"), "the outage")  # noqa: B023
    ids += [node.submit("noop", key=key_of(*half)) for node, half in zip(pair, HALVES.values(), strict=True)]
    outside.root.joinpath("open").touch()
    for node in pair:
        wait_until(lambda: node.journal("end"), "the end of a run")  # noqa: B023
    assert outside.cli("ps").code == 3
    pooler.start()
    outside.wait_for_store()
    assert {task.status for task in outside.ends_of(ids)} == {S.SUCCEEDED}
    assert {outside.task(task_id).status for task_id in paused} == {S.PAUSED}
    assert outside.cli("resume", *paused, "--wait").code == 0
    assert outside.cli("stop", *paused, "--wait").code == 0
    runs = Counter(entry["id"] for node in pair for entry in node.journal("begin"))
    assert runs == dict.fromkeys([*ids, *paused], 1)
    assert outside.store.leases([*ids, *paused]) == []
