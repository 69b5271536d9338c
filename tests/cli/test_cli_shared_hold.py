"""`chong hold --bucket`, `hold --name` and `drain`: what is held in the store, from anywhere."""

import re
import threading

import pytest
from cli_world import S, World
from waiting import wait_until

from chong.store.model import CatalogueEntry, HoldScope


@pytest.fixture
def two(world: World) -> World:
    """Two live nodes that define `mail`, neither of which has said what it keeps to."""
    world.add_node("node-b", None)
    for node in ("node-a", "node-b"):
        world.store.publish_catalogue(node, [CatalogueEntry(node=node, name="mail", module="m", options={"x": 1})])
    return world


def answer(world: World, *nodes: str) -> None:
    """These nodes keep to whatever is held now."""
    for node in nodes:
        assert world.store.acknowledge_holds(f"{node}.1", world.store.holds().revision)


def test_a_bucket_is_held_with_who_and_why(two: World, chong):
    """Requested as long as a live node has not answered; a second hold changes nothing."""
    told = chong("hold", "--bucket", "7", "--reason", "rest", "--as", "olga")
    assert told.code == 0
    assert told.out.startswith("bucket 7: hold requested: rest; by olga since ")
    (hold,) = two.store.holds().holds
    assert (hold.scope, hold.target, hold.by, hold.reason) == (HoldScope.BUCKET, "7", "olga", "rest")
    answer(two, "node-a", "node-b")
    chong("hold", "--bucket", "7-8", "--as", "eve")
    assert [(hold.target, hold.by) for hold in two.store.holds().holds] == [("7", "olga"), ("8", "eve")]
    assert chong("unhold", "--bucket", "7,9").out == (
        "bucket 7: release requested, 0 tasks waiting for a slot\nbucket 9: was not held\n"
    )
    assert [hold.target for hold in two.store.holds().holds] == ["8"]


def test_waiting_for_a_hold_names_who_has_not_answered(two: World, chong):
    """A node that is not live is not waited for: it reads the holds before it starts anything."""
    with two.ago(60):
        two.add_node("node-c", None)
    told = []
    asking = threading.Thread(target=lambda: told.append(two.run("hold", "--name", "mail", "--wait")))
    asking.start()
    wait_until(lambda: two.store.holds().holds, "the hold")
    answer(two, "node-a", "node-b")
    asking.join()
    assert told[0].code == 0
    assert told[0].out.startswith("name mail: held: by ")
    late = chong("unhold", "--name", "mail", "--wait", "--timeout", "0.1s")
    assert (late.code, late.out) == (1, "")
    assert "no word from node-a, node-b; the request stands" in late.err


def test_a_release_says_how_many_tasks_it_lets_go(two: World, chong):
    """Of those that nothing else keeps: no other hold in the store, and none of their node's own."""
    for name in ("mail", "mail", "other"):
        two.add(name, S.QUEUED)
    two.add("mail", S.QUEUED, node="node-b")
    chong("hold", "--name", "mail", "--name", "other")
    chong("drain", "node-b")
    held = CatalogueEntry(node="node-a", name="other", module="m", hold="by olga")
    two.store.publish_catalogue("node-a", [held])
    answer(two, "node-a", "node-b")
    told = chong("unhold", "--name", "mail", "--name", "other").out.splitlines()
    assert [line.partition(", ")[2] for line in told] == ["2 tasks waiting for a slot", "0 tasks waiting for a slot"]
    answer(two, "node-a", "node-b")
    assert chong("drain", "node-b", "--undo").out.endswith(", 1 task waiting for a slot\n")


@pytest.mark.parametrize("command", ["hold", "unhold"])
def test_a_bucket_that_does_not_exist_is_refused(two: World, chong, command):
    """Exit 2, and nothing else is held either; also before the store is reached when the number is said."""
    told = chong(command, "--bucket", "3,64")
    assert (told.code, told.err) == (2, "chong: --bucket: expected 0 to 63, got 64\n")
    told = chong("--num-buckets", "8", "--db", "/nowhere/chong.db", command, "--bucket", "8")
    assert (told.code, told.err) == (2, "chong: --bucket: expected 0 to 7, got 8\n")
    assert two.store.holds().holds == ()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("hold", "--name", "mial"), 1, "unknown task 'mial'; did you mean mail?"),
        (("drain", "node-x"), 1, "no node is called 'node-x'; did you mean node-"),
        (("hold",), 2, "expected NAME for this node, or --bucket or --name for all nodes, got none"),
        (("hold", "mail", "--bucket", "3"), 2, "got both"),
        (("hold", "mail", "--wait"), 2, "--wait: expected beside --bucket or --name, got NAME"),
        (("unhold", "mail", "--wait"), 2, "--wait: expected beside --bucket or --name, got NAME"),
        (("hold", "--bucket", "x"), 2, "expected items like 7 or 0-15"),
        (("drain", "n" * 101), 2, "node: expected 1 to 100 characters, got 101"),
        (("hold", "--name", "mail", "--as", "n" * 201), 2, "--as: expected 1 to 200 characters, got 201"),
        (("hold", "--name", "mail", "--reason", "x" * 501), 2, "--reason: expected 1 to 500 characters, got 501"),
    ],
)
def test_what_cannot_be_held_is_told_in_one_line(two: World, chong, words, code, said):
    """And nothing is."""
    told = chong(*words)
    assert (told.code, told.err.count("\n")) == (code, 1)
    assert said in told.err
    assert two.store.holds().holds == ()


def test_of_many_that_cannot_be_held_the_first_one_is_named(two: World, chong):
    """The same one each time, and in the order in which they were said."""
    names = [f"gone.{number}" for number in range(40)]
    told = chong("hold", *(word for name in names for word in ("--name", name)))
    assert (told.code, told.err.startswith("chong: unknown task 'gone.0'; ")) == (1, True)


def test_a_name_is_held_whose_definition_is_gone_while_its_tasks_wait(two: World, chong):
    """And it can be released when nothing waits any more."""
    task = two.add("gone", S.QUEUED)
    assert chong("hold", "--name", "gone").code == 0
    two.move(task, S.CANCELLED)
    assert chong("unhold", "--name", "gone").out.startswith("name gone: release")


@pytest.mark.parametrize(
    ("words", "column"),
    [(("hold", "--bucket", "7"), "buckets"), (("hold", "--name", "mail"), "tasks"), (("drain", "node-a"), "nodes")],
)
def test_what_is_held_is_shown_wherever_one_looks(two: World, chong, words, column):
    """`ps` marks it, `show` says by whom and why, and so does the list of what is held."""
    task = two.add("mail", S.QUEUED, bucket=7, bucket_key="k")
    other = two.add("other", S.QUEUED, node="node-b")
    chong(*words, "--reason", "rest", "--as", "olga")
    marked = {row.split()[0]: "(held)" in row for row in chong("ps").lines[1:]}
    assert marked == {task.id[-8:]: True, other.id[-8:]: False}
    assert "rest; by olga since " in chong("show", task.id).out
    assert chong("show", task.id, "--json").json["hold"].startswith("rest; by olga")
    held = [row["hold"] for row in chong(column, "--json").json if row["hold"]]
    assert held
    assert all(text.startswith("rest; by olga since ") for text in held)
    assert "rest; by olga" in chong(column).out


def test_all_holds_of_a_name_are_told(two: World, chong):
    """The node's own and the store's: who lifts some of them alone would wait in vain."""
    own_holds = {"mail": "by ann", "*": "by joe"}
    entries = [CatalogueEntry(node="node-a", name=name, module="m", hold=by) for name, by in own_holds.items()]
    two.store.publish_catalogue("node-a", entries)
    task = two.add("mail", S.QUEUED)
    chong("hold", "--name", "mail", "--as", "olga")
    chong("drain", "node-a", "--as", "eve")
    (row,) = [row for row in chong("tasks", "--node", "node-a", "--json").json if row["name"] == "mail"]
    assert row["hold"] == chong("show", task.id, "--json").json["hold"]
    told = [text.partition(" since ")[0] for text in row["hold"].split("; also ")]
    assert told == ["by ann", "by joe", "by eve", "by olga"]
    assert row["hold"] in chong("tasks").out


def test_both_holds_of_a_node_are_told(two: World, chong):
    """Its drain and its own hold of everything."""
    two.store.publish_catalogue("node-a", [CatalogueEntry(node="node-a", name="*", module="", hold="by ann")])
    chong("drain", "node-a", "--as", "eve")
    held = chong("nodes", "--json").json[0]["hold"]
    assert held.startswith("by eve since ")
    assert held.endswith("; also by ann")


def test_a_drained_node_is_shown_as_such(two: World, chong):
    """Until its drain is undone; only the node itself is waited for."""
    assert chong("drain", "node-a", "--as", "olga").out.startswith("node node-a: drain requested: by olga since ")
    assert "live (drained)" in chong("nodes").out
    answer(two, "node-a")
    again = chong("drain", "node-a", "--wait", "--timeout", "0.1s")
    assert again.code == 1, "the revision has risen"
    answer(two, "node-a")
    told = chong("drain", "node-a", "--undo")
    assert (told.code, told.out) == (0, "node node-a: end of the drain requested, 0 tasks waiting for a slot\n")
    assert "drained" not in chong("nodes").out
    assert chong("drain", "node-a", "--undo").out == "node node-a: was not held\n"


def test_forgetting_closes_what_waits(two: World, chong):
    """With who and why, after a count; its runs are left to the leases."""
    two.add("mail", S.RUNNING)
    ids = [two.add("mail", S.QUEUED).id for _ in range(3)]
    two.store.end_term("node-a.1")
    counted = "node node-a: 3 waiting tasks would be lost; 1 run left to the leases, see chong reconcile\n"
    assert chong("forget", "node-a", "--dry-run").out == counted
    assert two.store.stats()[S.LOST] == 0
    told = chong("forget", "node-a", "--yes", "--reason", "burnt", "--as", "olga")
    assert (told.code, told.out) == (0, counted.replace("would be lost", "lost, the node is forgotten"))
    last = two.store.history(ids[0])[-1]
    assert (last.target, last.actor, last.reason) == (S.LOST, "olga", "node node-a was forgotten: burnt")
    assert [node.node for node in two.store.nodes()] == ["node-b"]
    assert "node-a" not in chong("buckets").out
    assert "forgotten" in chong("history", ids[0]).out
    assert re.search(r"^ *end +never started$", chong("show", ids[0]).out, re.MULTILINE)
    assert chong("forget", "node-a", "--yes").code == 1


def test_forgetting_needs_a_word_and_a_node_that_is_gone(two: World, chong):
    """Nothing is closed otherwise."""
    two.add("mail", S.QUEUED)
    bare = chong("forget", "node-a")
    assert (bare.code, bare.err) == (
        2, "chong: --yes: expected it beside forget, got none; --dry-run counts what would be lost\n",
    )  # fmt: skip
    for word in ("--yes", "--dry-run"):
        live = chong("forget", "node-a", word)
        assert (live.code, live.err) == (1, "chong: node node-a is live: only one that is gone can be forgotten\n")
        assert "did you mean node-" in chong("forget", "node-x", word).err
    assert two.store.stats()[S.QUEUED] == 1


@pytest.mark.parametrize("words", [("hold", "--name"), ("unhold", "--name"), ("drain",), ("forget", "--yes")])
@pytest.mark.parametrize(("name", "got"), [("", "got 0"), ("x" * 201, "got 201"), ("a\nb", "got '\\n'")])
def test_what_can_be_no_name_is_wrong_usage(two: World, chong, words, name, got):
    """Nothing was looked up for it."""
    told = chong(*words, name)
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert got in told.err
