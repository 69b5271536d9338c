"""What is held in the store waits on every node that it concerns, and each node says that it keeps to it."""

from collections import Counter
from datetime import timedelta

import pytest
from node_bench import InProcess, S, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.memory import InMemoryTaskStore
from chong.store.model import HoldScope, SharedHold, TaskSnapshot
from chong.store.query import TaskQuery
from chong.store.specimens import node_record, term_record
from chong.store.states import Status
from chong.supervisor.commands import CommandPoller


def hold_of(scope: str, target: str) -> SharedHold:
    return SharedHold(scope=HoldScope(scope), target=target, by="olga", reason="rest")


def place(node: InProcess, scope: str, target: str) -> None:
    """Hold it, and wait until the node keeps to it."""
    wait_for(node, node.store.place_hold(hold_of(scope, target)))


def lift(node: InProcess, scope: str, target: str) -> None:
    wait_for(node, node.store.lift_hold(HoldScope(scope), target))


def wait_for(node: InProcess, revision: int) -> None:
    wait_until(lambda: (node.store.nodes()[0].holds_seen or 0) >= revision, "the node's word")


ACME = str(BucketPolicy().bucket_of("acme"))


def test_a_held_name_waits_and_the_rest_goes_on(node: InProcess):
    """Until it is released in the store."""
    place(node, "name", "noop")
    held = node.submit("noop")
    assert node.run("echo", text="x").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    lift(node, "name", "noop")
    assert node.end_of(held).status is S.SUCCEEDED


def test_a_held_bucket_waits_and_the_rest_goes_on(node: InProcess):
    """Whatever the names in it; work without a key is in no bucket."""
    place(node, "bucket", ACME)
    held = node.submit("noop", "acme")
    assert node.run("noop").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    lift(node, "bucket", ACME)
    assert node.end_of(held).status is S.SUCCEEDED


def test_a_held_node_starts_nothing_and_what_runs_goes_on(node: InProcess):
    """It accepts work as ever; a hold of another node is none of its business."""
    running = node.begun("until", path=str(node.root / "open"))
    node.store.register_term(term_record("node-b.1", "node-b"), node_record("node-b.1", "node-b"))
    place(node, "node", "node-b")
    assert node.run("noop").status is S.SUCCEEDED
    place(node, "node", "node-a")
    held = node.submit("noop")
    (node.root / "open").touch()
    assert node.end_of(running).status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    lift(node, "node", "node-a")
    assert node.end_of(held).status is S.SUCCEEDED


def test_a_hold_in_the_store_outlives_the_supervisor(node: InProcess):
    """The next term knows it before it starts anything, and says so anew."""
    place(node, "node", "node-a")
    held = node.submit("noop")
    node.controller.close()
    assert node.store.nodes()[0].holds_seen is not None
    node.start()
    wait_for(node, node.store.holds().revision)
    assert S.STARTING not in node.trail(held)
    lift(node, "node", "node-a")
    assert node.end_of(held).status is S.SUCCEEDED


def test_each_kind_of_hold_stays_when_the_other_is_released(node: InProcess):
    """One gate, shut by the node and by the store; who releases one is told of the other."""
    node.ask("hold", "noop", by="olga")
    place(node, "name", "noop")
    held = node.submit("noop")
    (released,) = node.ask("unhold", "noop", by="olga")
    assert (released["hold"], released["shared"].startswith("rest; by olga since ")) == (None, True)
    node.ask("hold", "noop", by="olga")
    lift(node, "name", "noop")
    assert node.run("echo", text="x").status is S.SUCCEEDED
    assert node.task(held).status is S.QUEUED
    (released,) = node.ask("unhold", "noop", by="olga")
    assert released["shared"] is None
    assert node.end_of(held).status is S.SUCCEEDED


def test_a_node_that_was_only_cut_off_registers_again(bench: InProcess):
    """Forgotten behind its back, it is a new node to all others, and runs what was not called lost."""
    node = bench.start(owned_buckets=range(16))
    node.run("noop", "acme")
    place(node, "name", "noop")
    waiting = node.submit("noop", "acme")
    tomorrow = node.store.nodes()[0].seen_at + timedelta(days=1)
    with type(node.store)(node.state / "chong.db", clock=lambda: tomorrow) as elsewhere:
        while elsewhere.forget_node("node-a", "forget.1", actor="olga", reason="burnt"):
            pass
    wait_until(lambda: [row for row in node.store.nodes() if row.is_live and row.holds_seen], "its return")
    assert {claim.bucket for claim in node.store.declarations()} == set(range(16))
    wait_until(lambda: [entry for entry in node.store.catalogue("node-a") if entry.name == "echo"], "its definitions")
    assert node.run("echo", "acme", text="x").status is S.SUCCEEDED
    lift(node, "name", "noop")
    assert node.run("noop", "acme").status is S.SUCCEEDED
    assert node.trail(waiting) == [S.QUEUED, S.LOST]
    assert [entry["id"] for entry in node.journal("begin") if entry["id"] == waiting] == []


def test_of_a_schedule_one_instant_waits_on_a_drained_node_and_others_run_the_rest(bench: InProcess):
    """As of a held name: what is open there is overlapped by no other, so whoever else owns the bucket claims it."""
    node = bench.start(modules=("node_tasks", "node_schedules"))
    place(node, "node", "node-a")
    bench.start(modules=("node_tasks", "node_schedules"), node="node-b", state_dir=bench.root / "b")

    def ticks(where: str, *statuses: Status) -> list[TaskSnapshot]:
        return node.store.query(TaskQuery(node=where, names=frozenset({"tick"}), statuses=frozenset(statuses)))

    wait_until(lambda: ticks("node-a", S.QUEUED), "one that waits")
    before = len(ticks("node-b", S.SUCCEEDED))
    wait_until(lambda: len(ticks("node-b", S.SUCCEEDED)) >= before + 3, "three more of the other node")
    assert len(ticks("node-a", S.QUEUED)) == 1
    lift(node, "node", "node-a")
    wait_until(lambda: not ticks("node-a", S.QUEUED), "its end")


class Counted(InMemoryTaskStore):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str):
        found = super().__getattribute__(name)
        if name in {"_reading", "_writing"}:
            self.calls[name] += 1
        return found


@pytest.fixture
def counted():
    with Counted() as store:
        yield store


def test_an_idle_node_pays_one_small_query_for_holds(counted: Counted):
    """Beside the look for commands; what it knows is not told again."""
    revision = counted.place_hold(hold_of("name", "noop"))
    told, seen = [], [None]
    poller = CommandPoller(
        counted, "node-a", "node-a.1", every=1, on_commands=told.append, known=lambda: seen[0],
        on_holds=told.append, on_error=told.append, on_success=lambda: None,
        on_unreadable=told.append,
    )  # fmt: skip
    poller.poll()
    assert [(found.revision, len(found.holds)) for found in told] == [(revision, 1)]
    seen[0] = revision
    counted.calls.clear()
    for _ in range(10):
        poller.poll()
    assert len(told) == 1
    assert counted.calls == {"_reading": 20}  # one for commands, one for holds
