"""`chong rebucket`: another number of buckets, with all nodes gone."""

import sqlite3
from contextlib import closing

import pytest
from cli_world import S, World

from chong.store.buckets import BucketPolicy
from chong.store.sqlite import SqliteTaskStore

OLD, NEW = BucketPolicy(64), BucketPolicy(96)
MOVES = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) != NEW.bucket_of(key))


@pytest.fixture
def gone(world: World) -> World:
    """Its one node has ended; two tasks wait, and a third has no key."""
    for _ in range(2):
        world.add(status=S.QUEUED, bucket=OLD.bucket_of(MOVES), bucket_key=MOVES)
    world.add(status=S.QUEUED)
    world.store.end_term("node-a.1")
    return world


def test_a_dry_run_counts_and_changes_nothing(gone: World, chong):
    """What the change itself then says is the same."""
    counted = "64 to 96 buckets: 2 of 2 waiting tasks with a key would move\n"
    assert chong("rebucket", "96", "--dry-run").out == counted
    assert gone.store.deployment().num_buckets == 64
    told = chong("rebucket", "96", "--yes")
    assert (told.code, told.out) == (0, counted.replace("would move", "moved; start each node with its new buckets"))


def test_a_dry_run_counts_nothing_that_has_ended(gone: World, chong, monkeypatch: pytest.MonkeyPatch):
    """There may be millions; open runs still keep the number as it is."""

    def refuse(*_: object) -> None:
        raise AssertionError("all tasks were counted")

    monkeypatch.setattr(SqliteTaskStore, "stats", refuse)
    assert chong("rebucket", "96", "--dry-run").code == 0
    gone.add()
    told = chong("rebucket", "96", "--dry-run")
    assert (told.code, told.err.startswith("chong: expected no open run, got 1: ")) == (1, True)


def test_a_change_is_shown_with_who_and_why(gone: World, chong):
    """By the command without a number, and in the history of each task that moved."""
    assert chong("rebucket").out == "64 buckets\n"
    said = chong("rebucket", "96", "--yes", "--reason", "more nodes", "--as", "olga", "--json").json
    assert said == {"before": 64, "after": 96, "waiting": 2, "moved": 2, "dry_run": False}
    shown = chong("rebucket")
    assert shown.lines[0] == "96 buckets"
    assert shown.lines[2].split()[-7:] == ["64", "96", "2", "2", "olga", "more", "nodes"]
    (change,) = chong("rebucket", "--json").json["changes"]
    assert (change["by"], change["before"], change["after"]) == ("olga", 64, 96)
    moved = next(row["id"] for row in chong("ps", "--json").json if row["bucket"] is not None)
    assert "rebucketed" in chong("history", moved).out


def test_the_configured_number_may_be_the_old_or_the_new_one(gone: World, chong):
    """chong.toml is changed before or after; whoever goes by the old one is refused then."""
    assert chong("--num-buckets", "96", "rebucket", "96", "--yes").code == 0
    assert chong("--num-buckets", "64", "ps").err == (
        "chong: --num-buckets: expected 96, as this store has recorded, got 64\n"
    )
    assert chong("--num-buckets", "96", "ps").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("96",), 2, "--yes: expected it beside rebucket, got none"),
        (("0", "--yes"), 2, "number of buckets: expected 1 to 65536, got 0"),
        (("many", "--yes"), 2, "'many' is not a valid integer"),
        (("96", "--yes", "--as", ""), 2, "--as: expected 1 to 200 characters"),
    ],
)
def test_what_is_no_change_is_told_in_one_line(gone: World, chong, words, code, said):
    """And the number stands."""
    told = chong("rebucket", *words)
    assert (told.code, told.out, told.err.count("\n")) == (code, "", 1)
    assert said in told.err
    assert gone.store.deployment().num_buckets == 64


@pytest.mark.parametrize("word", ["--yes", "--dry-run"])
def test_nothing_changes_under_a_node_a_run_or_a_hold(gone: World, chong, word):
    """The first that stands in the way is named, with what to do."""
    gone.add_node("node-b", None)
    run = gone.add(bucket_key="k", bucket=OLD.bucket_of("k"))
    chong("hold", "--bucket", "7")
    expected = [
        "chong: expected no live node, got node-b: end their supervisors first, drained ones too\n",
        "chong: expected no open run, got 1: chong reconcile calls those of dead nodes lost\n",
        "chong: expected no held bucket, got 7: lift it with chong unhold --bucket 7\n",
    ]
    mends = [
        lambda: gone.store.end_term("node-b.1"),
        lambda: gone.move(run, S.SUCCEEDED),
        lambda: chong("unhold", "--bucket", "7"),
    ]
    for said, mend in zip(expected, mends, strict=True):
        told = chong("rebucket", "96", word)
        assert (told.code, told.out, told.err) == (1, "", said)
        mend()
    assert chong("rebucket", "96", word).code == 0


def test_a_change_whose_moment_cannot_be_read_is_shown_and_counts(gone: World, chong):
    """The nodes own what they own by it, in each answer."""
    assert chong("rebucket", "96", "--yes").code == 0
    with closing(sqlite3.connect(gone.path, isolation_level=None)) as other:
        other.execute("UPDATE rebucketings SET at = 'noon'")
    said = "chong: store: rebucketings 1, column at: expected a time in microseconds, got 'noon'\n"
    for word in ("nodes", "buckets", "doctor", "rebucket"):
        assert said in chong(word).err
    assert chong("nodes", "--json").json[0]["buckets"] == []
    assert {tuple(row["owners"]) for row in chong("buckets", "--json").json} == {()}
    assert [change["after"] for change in chong("rebucket", "--json").json["changes"]] == [96]


def test_after_a_change_nobody_is_said_to_own_anything(gone: World, chong):
    """What was declared is dropped: the node owns all no more, and its buckets have no owner until it starts."""
    assert chong("nodes", "--json").json[0]["buckets"] is None
    assert chong("rebucket", "96", "--yes").code == 0
    assert chong("nodes", "--json").json[0]["buckets"] == []
    heads, row = (line.split() for line in chong("nodes").lines)
    assert row[heads.index("BUCKETS") + 1] == "-"  # SEEN is two words
    rows = chong("buckets", "--json").json
    assert {(tuple(row["owners"]), row["state"]) for row in rows} == {((), "UNCOVERED")}
    details = [row["detail"] for row in chong("doctor", "--json").json if row["kind"] == "uncovered"]
    assert details == ["no node has declared them"]
    gone.add_node("node-a", None)
    assert chong("nodes", "--json").json[0]["buckets"] is None
