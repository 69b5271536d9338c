"""A row of the store that makes no sense costs a look that row: it is told, the others are shown, and the code is 1."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from cli_world import Answer, S, World

from chong.cli.unread import MOST_TOLD
from chong.store.alert import Finding
from chong.store.model import CatalogueEntry, HoldScope, SharedHold

Chong = Callable[..., Answer]


def damage(world: World, *changes: str) -> None:
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        for change in changes:
            other.execute(f"UPDATE {change}")


def faults(answer: Answer) -> list[str]:
    return [line for line in answer.err.splitlines() if line.startswith("chong: store: ")]


@pytest.fixture
def populated(world: World) -> World:
    world.add_node("node-b", None)
    world.store.publish_catalogue("node-a", [CatalogueEntry(node="node-a", name="mail", module="m")])
    world.store.place_hold(SharedHold(scope=HoldScope.NAME, target="mail", by="olga"))
    world.store.report_findings(
        [Finding("orphan", "node x", "d"), Finding("orphan", "node y", "d")], quiet=timedelta(1), event_id="e"
    )
    return world


LOOKS = {
    "nodes": ("nodes SET limits = '[]' WHERE node = 'node-b'", ["nodes"], ["node-a", "node-b", "live"]),
    "the holds of ps": ("holds SET since = 'noon'", ["ps"], ["billing.sync", "mail", "held"]),
    "the nodes of ps": ("nodes SET limits = '[]'", ["ps"], ["billing.sync"]),
    "tasks": ("catalogue SET options = '[]'", ["tasks"], ["mail", "by olga"]),
    "buckets": ("holds SET since = 'noon'", ["buckets"], ["0-63", "OK"]),
    "alerts": ("alerts SET first_seen = 'noon' WHERE subject = 'node x'", ["alerts"], ["node y"]),
    "doctor": ("nodes SET started_at = 'noon'", ["doctor"], ["held: mail"]),
    "doctor as JSON": ("nodes SET started_at = 'noon'", ["doctor", "--json"], ['"kind": "held"']),
    "drain": ("nodes SET limits = '[]' WHERE node = 'node-a'", ["drain", "node-b"], ["node node-b"]),
    "hold": ("holds SET since = 'noon'", ["hold", "--bucket", "7"], ["bucket 7"]),
}


@pytest.mark.parametrize("what", LOOKS)
def test_a_look_shows_what_can_be_read(populated: World, chong: Chong, what: str):
    """Each fault is one line, once, however often its row was read."""
    change, words, expected = LOOKS[what]
    populated.add()
    populated.add("mail", S.QUEUED)
    damage(populated, change)
    answer = chong(*words)
    assert answer.code == 1
    assert all(text in answer.out for text in expected), answer.out
    told = faults(answer)
    assert told
    assert len(set(told)) == len(told)
    assert all(f"{change.split()[0]} " in line and "expected" in line for line in told)


def test_ps_shows_the_other_tasks(populated: World, chong: Chong):
    """A node whose row is damaged is there all the same."""
    bad, good = populated.add(), populated.add("report.daily")
    damage(populated, f"tasks SET flags = '{{}}' WHERE id = '{bad.id}'", "nodes SET limits = '[]'")
    answer = chong("ps", "--json")
    assert (answer.code, [task["id"] for task in answer.json]) == (1, [good.id])
    assert f"chong: store: tasks {bad.id}, column flags: expected a JSON list, got '{{}}'" in answer.err
    assert "forgotten" not in chong("ps").out


def test_the_trail_of_a_task_is_shown_without_its_bad_step(populated: World, chong: Chong):
    """The task itself cannot be done without."""
    task = populated.add()
    damage(populated, "transitions SET at = 'noon' WHERE version = 2")
    answer = chong("history", task.id)
    assert (answer.code, len(answer.lines)) == (1, 3)
    assert "transitions" in answer.err
    damage(populated, "tasks SET flags = '{}'")
    answer = chong("show", task.id)
    assert (answer.code, answer.out) == (1, "")
    assert len(answer.err.splitlines()) == 1


HUGE = "1" + 400 * "0"
PARTS = {
    "usage without its seconds": ("leases", "usage", "[null,1,1]"),
    "usage beyond all fractions": ("leases", "usage", f"[1.5,{HUGE},1]"),
    "progress beyond all fractions": ("leases", "progress", f"[{HUGE},2,null]"),
    "a failure without cause": ("tasks", "failure", '["exception",null,"m",null]'),
    "a stop without its moment": (
        "tasks",
        "stop",
        '{"by":"o","reason":null,"asked_at":null,"delivered_at":1,"acknowledged_at":1,"effective_at":1}',
    ),
}


@pytest.mark.parametrize("what", PARTS)
def test_a_part_of_a_value_that_makes_no_sense_is_told_as_well(populated: World, chong: Chong, what: str):
    """It is named when it is read: whoever would calculate with it knows of no row."""
    table, column, value = PARTS[what]
    bad, good = populated.add(status=S.RUNNING), populated.add("report.daily")
    key = "task_id" if table == "leases" else "id"
    damage(populated, f"{table} SET {column} = '{value}' WHERE {key} = '{bad.id}'")
    if column == "failure":
        damage(populated, f"tasks SET status = 'failed' WHERE id = '{bad.id}'")
    looks = (["ps", "--all"], ["ps", "--all", "--json"], ["show", bad.id], ["show", bad.id, "--json"])
    for words in looks:
        answer = chong(*words)
        assert answer.code == 1
        assert f"tasks {bad.id}, column {column}: expected a JSON" in answer.err
        assert words[0] == "show" or good.id[-8:] in answer.out


def test_of_many_faults_the_first_are_told(populated: World, chong: Chong):
    """And how many more there are."""
    for _ in range(MOST_TOLD + 3):
        populated.add()
    damage(populated, "tasks SET flags = '{}'")
    answer = chong("ps")
    assert answer.code == 1
    assert len(faults(answer)) == MOST_TOLD
    assert answer.err.splitlines()[-1] == "chong: 3 more rows of the store cannot be read"


def test_prune_leaves_what_it_cannot_read(populated: World, chong: Chong, tmp_path):
    """In the store, and out of the archive; a whole batch of it does not keep the others."""
    ended = datetime.now(UTC) - timedelta(days=9)
    tasks = [populated.add(status=S.SUCCEEDED) for _ in range(105)]
    with closing(sqlite3.connect(populated.path, isolation_level=None)) as other:
        for number, task in enumerate(tasks):
            moment = int((ended + timedelta(minutes=number)).timestamp() * 1_000_000)
            flags = "{}" if number < 102 else "[]"
            other.execute("UPDATE tasks SET ended_at = ?, flags = ? WHERE id = ?", (moment, flags, task.id))
    answer = chong("prune", "--older-than", "1d", "--archive", str(tmp_path / "old.jsonl"))
    assert answer.code == 1
    assert "3 tasks removed" in answer.out
    assert len((tmp_path / "old.jsonl").read_text().splitlines()) == 3
    assert len(faults(answer)) == MOST_TOLD
    assert "92 more rows of the store cannot be read" in answer.err
    assert populated.store.stats()[S.SUCCEEDED] == 102


def test_what_must_not_go_by_a_part_is_refused(populated: World, chong: Chong):
    """As long as it cannot count what it would do."""
    task = populated.add(status=S.QUEUED, bucket=3, bucket_key="k", node="node-c")
    populated.add_node("node-c", None, ttl=0)
    for node in ("node-a", "node-b", "node-c"):
        populated.store.end_term(f"{node}.1")
    damage(populated, f"tasks SET flags = '{{}}' WHERE id = '{task.id}'")
    for words in (["forget", "node-c", "--dry-run"], ["rebucket", "8", "--dry-run"]):
        answer = chong(*words)
        assert (answer.code, answer.out) == (1, "")
        assert "column flags" in answer.err


def test_a_stop_by_filter_says_whom_it_could_not_ask(populated: World, chong: Chong):
    """The others are asked."""
    bad, good = populated.add(), populated.add()
    damage(populated, f"tasks SET flags = '{{}}' WHERE id = '{bad.id}'")
    answer = chong("stop", "--name", "billing.sync")
    assert answer.code == 1
    assert good.id[-8:] in answer.out
    assert bad.id in answer.err
    assert len(populated.store.commands(good.id)) == 1


def test_reconcile_judges_nobody_whom_it_cannot_read(populated: World, chong: Chong):
    """Neither for a lease nor for a task that makes no sense."""
    with populated.ago(3600):
        bad, odd, good = (populated.add() for _ in range(3))
    damage(
        populated,
        f"tasks SET flags = '{{}}' WHERE id = '{bad.id}'",
        f"leases SET ttl = 'long' WHERE task_id = '{odd.id}'",
        "leases SET ttl = 1 WHERE ttl <> 'long'",
    )
    answer = chong("reconcile", "--json")
    assert (answer.code, [task["id"] for task in answer.json]) == (1, [good.id])
    damage(populated, "tasks SET flags = '[]'")
    assert [populated.store.get(task.id).status for task in (bad, odd)] == [S.RUNNING, S.RUNNING]
