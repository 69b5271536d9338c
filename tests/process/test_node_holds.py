"""What is held on a node waits, until it is released."""

import pytest
from node_bench import InProcess, S, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.errors import ConfigurationError, Refused
from chong.store.model import HoldScope, SharedHold
from chong.supervisor.catalogue import UNDEFINED


def shown(node: InProcess, name: str) -> str | None:
    return next((entry.hold for entry in node.store.catalogue("node-a") if entry.name == name), None)


def test_held_work_waits_and_the_rest_goes_on(node: InProcess):
    """It is accepted as ever; on its release it runs."""
    (fact,) = node.ask("hold", "noop", by="olga@desk", reason="too many mails")
    held = node.submit("noop")
    assert node.run("echo", text="x").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    assert fact["hold"].startswith("too many mails; by olga@desk since ")
    (released,) = node.ask("unhold", "noop", by="olga@desk")
    assert (released["waiting"], released["hold"]) == (1, None)
    assert node.end_of(held).status is S.SUCCEEDED


def test_a_hold_is_shown_to_all(node: InProcess):
    """With the definitions; until it is released."""
    node.ask("hold", "noop", by="olga@desk")
    wait_until(lambda: shown(node, "noop"), "the hold in the store")
    assert shown(node, "echo") is None
    node.ask("unhold", "noop", by="olga@desk")
    wait_until(lambda: shown(node, "noop") is None, "its end in the store")


def test_what_runs_is_not_touched_and_its_retry_waits(node: InProcess):
    """A hold keeps from starting, it stops nothing."""
    running = node.begun("until", path=str(node.root / "open"))
    retried = node.submit("fails.twice")
    node.wait_for(retried, S.RETRYING)
    node.ask("hold", "until", "fails.twice", by="olga")
    (node.root / "open").touch()
    assert node.end_of(running).status is S.SUCCEEDED
    node.run("span", seconds=1.5)  # longer than the pause of the retry
    task = node.task(retried)
    assert (task.status, task.attempt) == (S.RETRYING, 1)
    node.ask("unhold", "fails.twice", by="olga")
    assert node.end_of(retried).status is S.SUCCEEDED


def test_held_work_can_be_stopped(node: InProcess):
    """It is cancelled as any waiting task is."""
    node.ask("hold", "noop", by="olga")
    held = node.submit("noop")
    node.controller.stop(held)
    assert node.end_of(held).status is S.CANCELLED
    assert node.ask("unhold", "noop", by="olga")[0]["waiting"] == 0


def test_a_release_counts_what_it_lets_go(node: InProcess):
    """Not what another hold keeps: of its name, in the store, of its bucket."""
    node.ask("hold", "*", by="olga")
    node.ask("hold", "noop", by="olga")
    node.store.place_hold(SharedHold(scope=HoldScope.NAME, target="echo", by="olga"))
    key = "acme"
    bucket = BucketPolicy(node.controller.num_buckets).bucket_of(key)
    revision = node.store.place_hold(SharedHold(scope=HoldScope.BUCKET, target=str(bucket), by="olga"))
    held = [node.submit("noop"), node.submit("echo", text="x"), node.submit("span", key)]
    free = node.submit("span")
    wait_until(lambda: (node.store.nodes()[0].holds_seen or 0) >= revision, "the holds in the store")
    assert node.ask("unhold", "*", by="olga")[0]["waiting"] == 1
    assert node.end_of(free).status is S.SUCCEEDED
    assert {node.task(task_id).status for task_id in held} == {S.QUEUED}
    assert node.ask("unhold", "noop", by="olga")[0]["waiting"] == 1
    assert node.end_of(held[0]).status is S.SUCCEEDED


def test_a_hold_survives_the_supervisor(node: InProcess):
    """The next term starts nothing of it either, and knows who held it."""
    node.ask("hold", "noop", by="olga", reason="rest")
    held = node.submit("noop")
    node.controller.close()
    node.start()
    assert node.run("echo", text="x").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    assert (shown(node, "noop") or "").startswith("rest; by olga since ")
    node.ask("unhold", "noop", by="eve")
    assert node.end_of(held).status is S.SUCCEEDED


def test_an_unreadable_list_of_holds_holds_everything(bench: InProcess):
    """Set aside, shown, and released by hand; the node takes work meanwhile."""
    bench.state.mkdir(mode=0o700, exist_ok=True)
    (bench.state / "holds.json").write_text("{")
    node = bench.start()
    ids = [node.submit("noop"), node.submit("echo", text="x")]
    wait_until(lambda: "could not be read" in (shown(node, "noop") or ""), "the hold in the store")
    assert (node.state / "holds.json.unreadable").read_text() == "{"
    assert {node.task(task_id).status for task_id in ids} == {S.QUEUED}
    node.ask("unhold", "*", by="olga")
    assert {task.status for task in node.ends_of(ids)} == {S.SUCCEEDED}


def test_holding_twice_is_done_and_the_first_word_stays(node: InProcess):
    """As is releasing what is not held."""
    (first,) = node.ask("hold", "noop", by="olga", reason="mine")
    (second,) = node.ask("hold", "noop", by="eve", reason="no, mine")
    assert (first["had"], second["had"], second["hold"]) == (None, first["hold"], first["hold"])
    assert [fact["had"] for fact in node.ask("unhold", "noop", "echo", by="eve")] == [first["hold"], None]


def test_an_unknown_name_is_refused_with_the_nearest(node: InProcess):
    """And then none of the others is held either."""
    node.run("noop")
    with pytest.raises(Refused, match="unknown task 'noob', did you mean 'noop'"):
        node.ask("hold", "echo", "noob", by="olga")
    assert node.ask("unhold", "echo", by="olga")[0]["had"] is None


def test_work_whose_definition_is_gone_can_be_held(node: InProcess):
    """It fails else at the next free slot, before the definition is back."""
    node.ask("hold", "noop", by="olga")
    held = node.submit("noop")
    node.controller.close()
    node.start(modules=("node_schedules_none",))
    wait_until(lambda: shown(node, "noop"), "a hold without a definition")
    fact = node.ask("hold", "noop", by="eve")[0]
    assert (fact["waiting"], fact["undefined"]) == (1, 1)
    assert node.task(held).status is S.QUEUED
    node.controller.close()
    node.start()
    node.ask("unhold", "noop", by="eve")
    assert node.end_of(held).status is S.SUCCEEDED


def test_who_releases_work_that_nothing_defines_is_told_that_it_fails(node: InProcess):
    """Of everything only what no hold of its own keeps; the catalogue says it before."""
    node.ask("hold", "noop", "echo", by="olga")
    first, second = node.submit("noop"), node.submit("echo", text="x")
    node.controller.close()
    node.start(modules=("node_schedules_none",))
    wait_until(lambda: UNDEFINED in [entry.error for entry in node.store.catalogue()], "a hold without a definition")
    assert [fact["undefined"] for fact in node.ask("hold", "*", by="olga")] == [0]
    released = node.ask("unhold", "noop", by="olga")[0]
    assert (released["hold"] is None, released["undefined"]) == (False, 1)
    everything = node.ask("unhold", "*", by="olga")[0]
    assert (everything["waiting"], everything["undefined"]) == (1, 1)
    assert node.end_of(first).failure.kind == "import_error"
    assert node.task(second).status is S.QUEUED
    assert node.ask("unhold", "echo", by="olga")[0]["undefined"] == 1
    assert node.end_of(second).failure.kind == "import_error"


@pytest.mark.parametrize(
    "bad",
    [{}, {"names": []}, {"names": "noop"}, {"names": [7]}, {"names": ["noop"]}, {"names": ["noop"], "by": ""},
     {"names": ["noop"], "by": "x", "reason": ["x"]}, {"names": [None], "by": "x"}, {"names": [["noop"]], "by": "x"}],
)  # fmt: skip
def test_an_odd_request_is_refused(shared: InProcess, bad):
    """In one line, and nothing is held."""
    for op in ("hold", "unhold"):
        with pytest.raises((ConfigurationError, Refused)) as refused:
            shared.request({"op": op, **bad})
        assert "\n" not in str(refused.value)
    assert shared.ask("unhold", "noop", by="x")[0]["had"] is None


def test_a_hold_that_the_disk_does_not_take_counts_and_is_told(node: InProcess):
    """Whoever asked knows that the next term will not know of it."""
    node.run("noop")
    (node.state / ".holds.json.new").mkdir()
    with pytest.raises(Refused, match="only until this supervisor ends"):
        node.ask("hold", "noop", by="olga")
    held = node.submit("noop")
    assert node.run("echo", text="x").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    (node.state / ".holds.json.new").rmdir()
    node.ask("unhold", "noop", by="olga")
    assert node.end_of(held).status is S.SUCCEEDED
