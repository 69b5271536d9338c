"""A node whose clock is five seconds off, beside one whose clock is right, on one PostgreSQL."""

import os
import re
import signal
import time
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from node_bench import LEASE, TASK_FOLDERS, Enter, S, Supervised, wait_until

OFF = 5.0
"""More than a lease, so that whoever judged one by this clock would be wrong at once."""
assert OFF > LEASE
PYTHONPATH = os.pathsep.join([str(Path(__file__).with_name("wrong_clock")), *TASK_FOLDERS])


@pytest.fixture(params=[OFF, -OFF], ids=["ahead", "behind"])
def ahead(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture
def wrong(fleet: Enter, ahead: float) -> Supervised:
    """The node: its supervisor, its runs, and `chong` beside it."""
    clock = {"PYTHONPATH": PYTHONPATH, "NODE_CLOCK_AHEAD": str(ahead)}
    setting = [f"{name}={value}" for name, value in clock.items()]
    node = fleet("--node", "wrong", "--alert-seconds", "1", within=("env", *setting))
    node.environment.update(clock)
    return node


def findings(node: Supervised) -> dict[tuple[str, str], str]:
    return {(found["kind"], found["subject"]): found["detail"] for found in node.cli("doctor", "--json").json}


def shown(node: Supervised, task_id: str, *columns: str) -> list[float]:
    """Lengths of time in seconds, as `chong ps` there shows them of the task."""
    node.environment["COLUMNS"] = "200"
    head, *lines = node.cli("ps", "--full-id").out.splitlines()
    [line] = [line for line in lines if line.startswith(task_id)]
    texts = [line[: head.index(column) + len(column)].split()[-1] for column in columns]
    found = [re.fullmatch(r"(?:(\d+)m)?([\d.]+)s", text) for text in texts]
    return [60 * int(each[1] or 0) + float(each[2]) for each in found]


def wait_for_renewals(node: Supervised, task_id: str, count: int) -> None:
    """So many more than there were."""
    [before] = node.store.leases([task_id])

    def renewals() -> int:
        [lease] = node.store.leases([task_id])
        return lease.renewals - before.renewals

    wait_until(lambda: renewals() >= count, "renewals")


def begun(node: Supervised) -> str:
    return node.begun("until", path=str(node.root / "never"))


def test_a_wrong_clock_is_told_and_costs_no_run(wrong: Supervised, outside: Supervised, fleet: Enter, ahead: float):
    """By `doctor`, for that node alone; whoever judges, by whichever clock, calls none of its runs lost."""
    right = fleet("--node", "right", "--alert-seconds", "1")
    ids = [begun(wrong), begun(right)]
    wait_until(lambda: ("clock", "node wrong") in findings(outside), "what doctor says")
    side = "ahead of" if ahead > 0 else "behind"
    assert re.fullmatch(rf"(4\.[5-9]|5\.0) s {side} the store's clock", findings(outside)["clock", "node wrong"])
    assert set(findings(wrong)) == {("clock", "node wrong")}
    for task_id in ids:
        wait_for_renewals(outside, task_id, 6)  # in twice a lease, which is longer than the clock is off
    for judge in (wrong, right):
        assert judge.cli("reconcile", "--json").json == []
    assert [row["is_live"] for row in outside.cli("nodes", "--json").json] == [True] * 2
    assert [outside.task(task_id).status for task_id in ids] == [S.RUNNING] * 2
    assert outside.cli("stop", *ids, "--wait").code == 0
    assert [outside.task(task_id).attempt for task_id in ids] == [1, 1]


def test_what_is_past_is_judged_by_the_stores_clock(wrong: Supervised, outside: Supervised, fleet: Enter):
    """Who judges by a wrong clock calls the run of a dead node lost when its lease is past, and no sooner."""
    right = fleet("--node", "right", lease=2 * OFF)
    task_id = begun(right)
    forkserver = right.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    right.kill()
    [lease] = outside.store.leases([task_id])
    judged = wrong.cli("reconcile", "--json")
    os.kill(forkserver, signal.SIGKILL)
    assert [row["id"] for row in judged.json] == [task_id]
    right.end_of(task_id)
    assert moment_of_end(outside, task_id) >= lease.until


def moment_of_end(node: Supervised, task_id: str) -> datetime:
    """By the store's clock, whatever the clock said of whoever stored it."""
    with psycopg.connect(str(node.address)) as connection:
        [(at,)] = connection.execute("SELECT at FROM transitions WHERE task_id = %s", [task_id]).fetchall()[-1:]
    return at


def test_ages_are_wrong_by_no_more_than_the_clock(wrong: Supervised, outside: Supervised, ahead: float):
    """A moment that has not come yet by the reader's clock is now: no length of time is below nothing."""
    began = time.monotonic()
    task_id = begun(wrong)
    on_it = shown(wrong, task_id, "AGE")
    elsewhere = shown(outside, task_id, "AGE")
    most = time.monotonic() - began + 1  # whole seconds are shown, and the first of them was not measured
    assert all(0 <= length <= most for length in on_it)
    assert all(max(0, -ahead - 1) <= length <= max(0, most - ahead) for length in elsewhere)
    assert outside.cli("stop", task_id, "--wait").code == 0
