"""Two real supervisors that own the same buckets race for each firing; one of them is killed or frozen at its claim."""

import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from node_bench import LEASE, Enter, Supervised, wait_until
from waiting import state_of

KILLER = (sys.executable, str(Path(__file__).with_name("killed_in_store.py")), "claim_firings", "5", "won")
FREEZER = (*KILLER[:-1], "frozen")
OFTEN = ("--tasks", "node_often")
PATIENCE = 90.0
"""Seconds; whoever wakes first at an instant may claim all of it, so one of them can lose for long."""
Instant = tuple[str, str]


def runs(*nodes: Supervised) -> Counter[Instant]:
    """How many times user code ran for each instant and key: the id of a scheduled task begins with its instant."""
    entries = [entry for node in nodes for entry in node.journal("begin")]
    return Counter((entry["id"][:13], entry["key"]) for entry in entries)


def claims(node: Supervised) -> dict[Instant, tuple[str, datetime]]:
    """Who has claimed each instant, and when; in that order."""
    wanted = "SELECT planned, key, node, claimed_at FROM firings WHERE name = 'often' ORDER BY claimed_at"
    with psycopg.connect(str(node.address)) as connection:
        rows = connection.execute(wanted).fetchall()
    return {(id_head(planned), key): (owner, at) for planned, key, owner, at in rows}


def test_each_firing_runs_once_though_one_owner_is_killed_at_its_claim(fleet: Enter):
    """The claims that it died with are taken by nobody else and do not run: at most once. All others do, once each."""
    one = fleet("--node", "one", *OFTEN)
    two = fleet("--node", "two", *OFTEN, within=KILLER)
    assert wait_until(lambda: two.supervisor.poll() is not None, "the kill at the claim", PATIENCE)
    died = datetime.now(UTC)
    two.start("--node", "two", *OFTEN)
    before = len(two.journal("begin"))
    wait_until(lambda: len(two.journal("begin")) >= before + 20, "two in the race again", PATIENCE)
    wait_until(lambda: sum(runs(one, two).values()) >= 150, "many firings", PATIENCE)
    for node in (one, two):
        assert node.terminate() == 0
    ran, claimed = runs(one, two), claims(one)
    assert [instant for instant, count in ran.items() if count > 1] == []
    assert set(ran) <= set(claimed)
    assert {owner for owner, _ in claimed.values()} == {"one", "two"}
    # A claim whose answer came behind the next instant, or behind the drain, is not used either, and that is told.
    unrun = {instant for instant in claimed if instant not in ran and not is_stored(one, instant)}
    silent = unrun - told(one) - told(two)
    # The kill came behind one; the answers of some before it may still have been on their way to the main loop.
    its_own = [instant for instant, (owner, at) in claimed.items() if owner == "two" and at <= died]
    left = [instant for instant in its_own if instant in silent or instant not in unrun]
    assert silent
    assert silent == set(left[-len(silent) :])


@pytest.mark.parametrize("lease", [LEASE, 30.0], ids=["past its lease", "within its lease"])
def test_each_firing_runs_once_though_one_owner_is_frozen_at_its_claim(fleet: Enter, lease: float):
    """The other one runs what comes meanwhile; what it had claimed runs when it goes on, and nothing runs twice."""
    one = fleet("--node", "one", *OFTEN, lease=lease)
    two = fleet("--node", "two", *OFTEN, lease=lease, within=FREEZER, wait=False)
    wait_until(lambda: state_of(two.supervisor.pid) == "T", "the freeze at the claim", PATIENCE)
    *_, frozen_at = (instant for instant, (owner, _) in claims(one).items() if owner == "two")
    fired = len(claims(one))
    wait_until(lambda: len(claims(one)) >= fired + 16 * (LEASE + 2), "firings meanwhile", PATIENCE)
    assert {owner for instant, (owner, _) in claims(one).items() if instant[0] > frozen_at[0]} == {"one"}
    assert frozen_at not in runs(one, two)
    os.kill(two.supervisor.pid, signal.SIGCONT)
    wait_until(lambda: frozen_at in runs(two), "what was claimed before the freeze")
    goes_on_at = max(instant[0] for instant in claims(one))
    wait_until(lambda: any(head > goes_on_at for head, _ in runs(two)), "two in the race again", PATIENCE)
    # Of all that was claimed up to then nothing is left lying; it may still wait for its turn.
    before = {instant for instant in claims(one) if instant[0] <= goes_on_at}
    wait_until(lambda: before <= {*runs(one, two), *told(one), *told(two)}, "an end of all that was claimed", PATIENCE)
    for node in (one, two):
        assert node.terminate() == 0
    ran, claimed = runs(one, two), claims(one)
    assert [instant for instant, count in ran.items() if count > 1] == []
    assert set(ran) <= set(claimed)
    # What was claimed just before the end may wait for the next start; what nobody will run is told.
    unrun = {instant for instant in claimed if instant not in ran and not is_stored(one, instant)}
    assert unrun <= told(one) | told(two)


def told(node: Supervised) -> set[Instant]:
    """What its log says that it did not run."""
    events = [*node.events("firing_missed"), *node.events("firing_refused")]
    return {(id_head(datetime.fromisoformat(event["planned"])), event["key"]) for event in events}


def id_head(planned: datetime) -> str:
    """How the ids of an instant's tasks begin."""
    text = f"{round(planned.timestamp() * 1000):012x}"
    return f"{text[:8]}-{text[8:]}"


def is_stored(node: Supervised, instant: Instant) -> bool:
    """Whether a task of that instant and key is in the store."""
    found = node.store.find(instant[0], limit=20)
    return any(task.bucket_key == instant[1] for task in found)
