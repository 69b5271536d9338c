"""Buckets, nodes, definitions, counts."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from cli_world import S, World
from waiting import LIMIT

from chong.cli.definition import options_text
from chong.store.model import CatalogueEntry, NodeRecord
from chong.supervisor.catalogue import Catalogue, Task
from chong.worker.options import read_options

ROW = {"bucket", "owners", "live_owners", "state", "queued", "running", "expired", "oldest_wait", "mine", "hold"}


def rows_of(answer):
    return {row["bucket"]: row for row in answer.json}


def test_a_node_without_partition_covers_all(world: World, chong):
    """On an idle node, too; keyless work is shown as "-"."""
    assert [line.split()[:3] for line in chong("buckets").lines[1:]] == [["0-63", "OK", "node-a"]]
    world.add(bucket=3, bucket_key="k")
    waiting = world.add(status=S.QUEUED)
    world.add(status=S.SUCCEEDED, bucket=9, bucket_key="l")
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("UPDATE tasks SET status_changed_at = status_changed_at - 90000000 WHERE id = ?", [waiting.id])
    rows = rows_of(chong("buckets", "--json"))
    assert list(rows) == [None, *range(64)]
    assert set(rows[3]) == ROW
    assert (rows[3]["owners"], rows[3]["state"], rows[3]["running"]) == (["node-a"], "OK", 1)
    assert rows[3]["oldest_wait"] is None
    assert 90 <= rows[None]["oldest_wait"] < 90 + LIMIT
    assert "  -" in chong("buckets").lines[1]


@pytest.fixture
def partition(world: World) -> World:
    """node-b: 0-3 and silent, node-c: 3-62; nobody has 63."""
    world.store.declare_buckets("node-a", frozenset({0}))
    world.add_node("node-b", frozenset(range(4)), ttl=0)
    world.add_node("node-c", frozenset(range(3, 63)))
    return world


def test_duplicates_and_gaps_of_a_partition(partition: World, chong):
    """Several declarations are a duplicate; none of a living node is a gap."""
    rows = rows_of(chong("buckets", "--json"))
    assert len(rows) == 64
    assert (rows[0]["state"], rows[0]["owners"], rows[0]["live_owners"]) == (
        "DUPLICATE",
        ["node-a", "node-b"],
        ["node-a"],
    )
    assert (rows[1]["state"], rows[1]["owners"], rows[1]["live_owners"]) == ("UNCOVERED", ["node-b"], [])
    assert (rows[4]["state"], rows[4]["live_owners"]) == ("OK", ["node-c"])
    assert (rows[63]["state"], rows[63]["owners"], rows[63]["live_owners"]) == ("UNCOVERED", [], [])


def test_of_two_hundred_owners_the_first_are_named(world: World, chong):
    """And how many there are; JSON has all. A line can be read whatever the nodes are called."""
    for number in range(200):
        world.add_node(f"{number:03}-" + "n" * 96, frozenset(range(0, 64, 2)))
    lines = chong("buckets").lines
    assert max(map(len, lines)) < 700
    assert " and 199 more" in lines[1]
    assert len(rows_of(chong("buckets", "--json"))[0]["owners"]) == 201
    nodes = chong("nodes").lines
    assert max(map(len, nodes)) < 500
    assert " and 16 more" in nodes[1]
    assert len(chong("nodes", "--json").json[1]["buckets"]) == 32
    told = chong("doctor")
    assert told.code == 1
    assert max(map(len, told.lines)) < 700
    assert " and 198 more; give each bucket to one node" in told.lines[0]


def test_all_live_owners_of_a_duplicate_are_named(partition: World, chong):
    """Each of them runs the bucket's work."""
    partition.add_node("node-d", frozenset({3, 4}))
    lines = {line.split()[0]: line for line in chong("buckets").lines[1:]}
    assert lines["4"].split()[1:6] == ["DUPLICATE", "node-c,", "node-d", "node-c,", "node-d"]
    assert "node-b, node-c, node-d  node-c, node-d" in lines["3"]


def test_before_any_node_all_buckets_are_uncovered(tmp_path, chong):
    """The number that `migrate` has recorded, or else the one that a first start would record."""
    recorded, bare = (("--db", str(tmp_path / name)) for name in ("recorded.db", "bare.db"))
    assert chong(*recorded, "--num-buckets", "32", "migrate").code == 0
    answer = chong(*recorded, "buckets")
    assert [line.split()[:4] for line in answer.lines[1:]] == [["0-31", "UNCOVERED", "-", "-"]]
    assert (answer.code, answer.err) == (0, "")
    assert chong(*bare, "migrate").code == 0
    answer = chong(*bare, "buckets")
    assert [line.split()[0] for line in answer.lines[1:]] == ["0-63"]
    assert answer.err == "chong: number of buckets not recorded yet, 64 assumed: no node has been here\n"


def test_keyless_work_is_uncovered_by_partitions(partition: World, chong):
    """Only nodes without partition take it."""
    partition.add()
    assert rows_of(chong("buckets", "--json"))[None]["state"] == "UNCOVERED"


def test_an_explicit_full_cover_is_no_partition(world: World, chong):
    """Two nodes that own everything are not 64 duplicates."""
    world.store.declare_buckets("node-a", frozenset(range(64)))
    world.add_node("node-b", None)
    assert {row["state"] for row in chong("buckets", "--json").json} == {"OK"}


def test_mine_is_marked(partition: World, chong):
    """By --owned-buckets; owning all marks all, saying nothing marks none."""

    def marked(*args):
        return {row["bucket"] for row in chong(*args, "buckets", "--json").json if row["mine"]}

    assert marked("--owned-buckets", "3,20") == {3, 20}
    assert marked() == set()
    assert len(marked("--owned-buckets", "0-63")) == 64
    assert chong("--owned-buckets", "1", "buckets").lines[2].startswith("*       1  UNCOVERED")


def test_nodes_tells_who_is_alive(partition: World, chong):
    """The stored record and what the node declared."""
    rows = {row["node"]: row for row in chong("nodes", "--json").json}
    assert [rows[node]["is_live"] for node in ("node-a", "node-b", "node-c")] == [True, False, True]
    assert set(rows["node-a"]) == set(NodeRecord.__dataclass_fields__) | {"buckets", "hold"}
    assert rows["node-b"]["buckets"] == [0, 1, 2, 3]
    assert {(row["host"], row["machine_id"], row["boot_id"]) for row in rows.values()} == {("host-1", "m" * 32, "b")}
    text = chong("nodes").out
    assert "silent" in text
    assert "3-62" in text


def test_tasks_shows_the_catalogue(world: World, chong):
    """Per node, with the options that say something, and why a module failed to load."""
    entry = CatalogueEntry(
        node="node-a", name="a", module="acme.tasks", options={"retries": 3, "backoff": {"first": 5.0}}
    )
    broken = CatalogueEntry(node="node-b", name="(acme.broken)", module="acme.broken", error="ImportError: no acme")
    world.store.publish_catalogue("node-a", [entry])
    world.store.publish_catalogue("node-b", [broken])
    shown = {"node", "name", "module", "options", "error", "hold"}
    assert [set(row) for row in chong("tasks", "--json").json] == [shown] * 2
    assert [row["node"] for row in chong("tasks", "--node", "node-b", "--json").json] == ["node-b"]
    _, first, second = chong("tasks").lines
    assert first.split() == ["node-a", "a", "-", "backoff=first:5", "retries=3", "acme.tasks", "-", "-"]
    assert second.split(maxsplit=6)[6] == "not imported: ImportError: no acme"


@pytest.mark.parametrize("words", ["ps", "ps --all --json", "tasks", "tasks --json"])
def test_a_look_at_a_node_that_does_not_exist_says_so(partition: World, chong, words):
    """Beside the empty answer, which is as true; a node without anything to show is not remarked on."""
    answer = chong(*words.split(), "--node", "nod-a")
    assert (answer.code, len(answer.lines)) == (0, 1)
    assert answer.err == "chong: no node is called 'nod-a'; did you mean node-a?\n"
    assert chong(*words.split(), "--node", "node-c").err == ""


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"name": "(acme.broken)"}, "not imported: why"),
        ({"name": "a"}, "not served: why"),
        ({"name": "a", "options": {"parameters": "()"}}, "served, but why"),
        ({"name": "a", "module": "", "hold": "by olga"}, "why"),
        ({"name": "a", "error": None}, "-"),
    ],
)
def test_an_error_begins_with_what_it_costs(world: World, chong, facts, told):
    """A module with all its tasks, one task, a part of what a task says; or it tells of a name that is only held."""
    entry = CatalogueEntry(**{"node": "node-a", "module": "acme.broken", "error": "why"} | facts)
    world.store.publish_catalogue("node-a", [entry])
    head, line = chong("tasks").lines
    assert line[head.index("ERROR") :] == told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, ""),
        ({"interruptible": True, "fork_safe": False}, "interruptible"),
        ({"exec": True, "retries": 2}, "retries=2 (not forked: its module leaves threads or replaces functions)"),
        ({"timeout": 5415.0, "stop_grace": 0.5, "every": 86_400.0}, "every=1d stop_grace=0.5s timeout=1h30m15s"),
        ({"kill_grace": 0, "start_timeout": 60.0}, "kill_grace=0s start_timeout=1m"),
        ({"memory": 300 << 20, "log_max": 1_000_001}, "log_max=1000001 memory=300M"),
        ({"umask": 18, "tags": ["a", "b"], "env": ["A"]}, "env=A tags=a,b umask=0o022"),
        ({"retry_on": [], "max_parallel": None}, "retry_on="),
        ({"backoff": {"first": 30.0, "factor": 2.0, "most": 300.0, "jitter": 0.2}, "x": None},
         "backoff=first:30,factor:2,most:300,jitter:0.2"),
    ],
)  # fmt: skip
def test_options_are_told_in_the_words_of_their_author(options, text):
    """Units, and no `=True`; what is no option says in words what it means."""
    assert options_text(options) == text


def test_errors_and_nodes_are_seen_on_a_narrow_terminal(world: World, chong, monkeypatch):
    """What is wrong stays when what is only good to know has to go."""
    broken = CatalogueEntry(node="node-a", name="(acme.mail)", module="acme.mail", error="ImportError: no module acme")
    good = CatalogueEntry(node="node-a", name="a" * 30, module="acme", options={"parameters": "(x: int = 1)" * 9})
    world.store.publish_catalogue("node-a", [broken, good])
    monkeypatch.setenv("COLUMNS", "60")
    head, line, _ = chong("tasks").lines
    assert head.split()[-1] == "ERROR"
    assert "not imported: ImportErr" in line
    assert chong("nodes").lines[0].split()[:4] == ["NODE", "STATE", "SEEN", "BUCKETS"]
    monkeypatch.delenv("COLUMNS")
    assert len(chong("tasks").lines[0].split()) == 7


def test_stats_counts_every_status(world: World, chong):
    """Also those without tasks."""
    world.add()
    world.add(status=S.FAILED)
    found = chong("stats", "--json").json
    assert set(found) == set(S)
    assert (found["running"], found["failed"], found["lost"]) == (1, 1, 0)


def test_neighbours_that_say_the_same_are_one_line(world: World, chong):
    """48 uncovered buckets are one thing to know; a bucket with open work keeps its own line, JSON keeps them all."""
    world.add_node("node-a", frozenset(range(16)))
    world.add("billing.sync", bucket=7, bucket_key="k")
    shown = [(line.split()[0], line.split()[1]) for line in chong("buckets").lines[1:]]
    assert shown == [("0-6", "OK"), ("7", "OK"), ("8-15", "OK"), ("16-63", "UNCOVERED")]
    assert len(chong("buckets", "--json").json) == 64


def test_options_that_are_the_default_are_not_shown(world: World, chong):
    """Only what its author chose."""
    options = {"parameters": "(pages: int = 60)", "retries": 2, "stop_grace": 10.0, "timeout": None, "tags": []}
    entry = CatalogueEntry(node="node-a", name="report", module="acme", options=options)
    world.store.publish_catalogue("node-a", [entry])
    assert chong("tasks").lines[1].split() == [
        "node-a",
        "report",
        "(pages:",
        "int",
        "=",
        "60)",
        "retries=2",
        "acme",
        "-",
        "-",
    ]


def test_nodes_tells_which_node_holds_everything_itself(partition: World, chong):
    """As it does of one that is drained, with the words of whoever did it."""
    held = CatalogueEntry(node="node-a", name="*", module="", hold="all; by olga since yesterday")
    partition.store.publish_catalogue("node-a", [held])
    rows = {row["node"]: row["hold"] for row in chong("nodes", "--json").json}
    assert rows == {"node-a": held.hold, "node-b": None, "node-c": None}
    assert chong("nodes").out.count("live (held)") == 1


def test_schedule_shows_what_runs_next_and_what_was_missed(world: World, chong):
    """By name and key, soonest first, with what was claimed last; of many keys the first hundred."""
    options = read_options("a", {"schedule": ["0 0 1 1 *", "0 12 1 1 *"], "keys": ["k", "l"], "misfire": "all"})
    many = read_options("b", {"every": "30s", "keys": [f"{n:03}" for n in range(150)]})
    entries = Catalogue({name: Task(name, "m", "()", each) for name, each in (("a", options), ("b", many))}).entries(
        "node-a", {}, {"b": "no"}
    )
    world.store.publish_catalogue("node-a", entries)
    year = datetime.now(UTC).year
    world.store.claim_firing("a", "k", datetime(year - 1, 1, 1, tzinfo=UTC), node="node-b", event_id="1")
    rows = chong("schedule", "--next", "2", "--name", "a", "--json").json
    assert [(row["key"], row["planned"][4:16]) for row in rows] == [
        (key, f"-01-01T{hour}:00") for hour in ("00", "12") for key in ("k", "l")
    ]
    assert [row["missed"] for row in rows] == [3, 0, 3, 0]
    assert rows[0]["last"].startswith(f"{year - 1}-01-01T00:00")
    told = chong("schedule", "--key", "007")
    assert len(told.lines) == 2
    assert told.lines[1].endswith("no")
    assert told.err == "b on node-a: 100 of 150 keys are shown\n"
