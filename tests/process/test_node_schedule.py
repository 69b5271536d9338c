"""Schedules of a whole node, with real seconds."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
import structlog
from node_bench import LIMIT, InProcess, S, wait_until
from node_store import Fickle
from structlog.testing import LogCapture

from chong.store.contract import TaskStore
from chong.store.model import FiringClaim, TaskSnapshot
from chong.store.query import TaskQuery
from chong.supervisor import term

MODULES = ("node_tasks", "node_schedules")


def fired(node: InProcess, name: str) -> list[TaskSnapshot]:
    return [task for task in node.store.query(TaskQuery(limit=1000)) if task.name == name]


def planned(task: TaskSnapshot) -> int:
    """The planned millisecond, out of the id."""
    return int(task.id.replace("-", "")[:12], 16)


def begins(node: InProcess, tasks: list[TaskSnapshot]) -> Counter[tuple[int, str | None]]:
    """How often the task of each instant and key has begun by its own account, once all of these are over."""
    node.ends_of([task.id for task in tasks])
    begun = Counter(entry["id"] for entry in node.journal("begin"))
    counts: Counter[tuple[int, str | None]] = Counter()
    for task in tasks:
        counts[planned(task), task.bucket_key] += begun[task.id]
    return counts


def test_a_scheduled_task_runs_at_each_of_its_instants(bench: InProcess):
    """At the multiples of its interval since the epoch, and never before the node accepted work."""
    node = bench.start(modules=MODULES)
    wait_until(lambda: len([task for task in fired(node, "tick") if task.status is S.SUCCEEDED]) >= 3, "three of them")
    tasks = fired(node, "tick")
    instants = sorted(map(planned, tasks))
    assert {instant % 1000 for instant in instants} == {0}
    assert set(begins(node, tasks).values()) == {1}
    assert {(task.trigger, task.bucket_key) for task in tasks} == {("schedule", None)}
    assert all(task.created_at.timestamp() * 1000 >= planned(task) for task in tasks)
    started = next(record.started_at for record in node.store.nodes())
    assert started is not None
    assert instants[0] > started.timestamp() * 1000


def test_two_nodes_that_own_the_bucket_fire_each_instant_once(bench: InProcess):
    """For each key; both of them get their share of what is to be done, or one gets all of it."""
    bench.start(modules=MODULES)
    bench.start(modules=MODULES, node="node-b", state_dir=bench.root / "b")
    wait_until(lambda: len(fired(bench, "tick.keys")) >= 8, "four instants of both keys")
    counts = begins(bench, fired(bench, "tick.keys"))
    assert set(counts.values()) == {1}
    assert {key for _, key in counts} == {"acme", "globex"}


def test_a_partition_fires_its_own_keys_only(bench: InProcess):
    """acme falls into bucket 1, globex into 26; what cannot be scheduled is shown."""
    node = bench.start(modules=("node_tasks", "node_keys"), owned_buckets=range(16))
    wait_until(lambda: len(fired(node, "tock.keys")) >= 2, "two firings")
    assert {task.bucket_key for task in fired(node, "tock.keys")} == {"acme"}
    errors = {entry.name: entry.error for entry in node.store.catalogue("node-a")}
    assert errors["tock.keys"] is None
    assert errors["tock.needy"] == "every: expected no parameter without a default, got path"


def test_what_was_missed_while_the_node_was_down_is_made_up_for(bench: InProcess):
    """By the last claims in the store: of one schedule each instant, once and in order, of the other the newest."""
    node = bench.start(modules=("node_tasks", "node_keys"))
    wait_until(lambda: fired(node, "tock.all") and fired(node, "tock.keys"), "the first ones")
    node.controller.close()
    closed = time.time()
    wait_until(lambda: time.time() > closed + 4, "some instants without it")
    node.start(modules=("node_tasks", "node_keys"))
    wait_until(lambda: max(map(planned, fired(node, "tock.all"))) > 1000 * (closed + 6), "it to have caught up")
    tasks = sorted(fired(node, "tock.all"), key=planned)
    instants = list(map(planned, tasks))
    assert instants == list(range(instants[0], instants[-1] + 1, 1000))
    # The first term may have stopped its last one before it began.
    assert set(begins(node, [task for task in tasks if planned(task) > 1000 * closed]).values()) == {1}
    assert [task.created_at for task in tasks] == sorted(task.created_at for task in tasks)
    newest = {planned(task) for task in fired(node, "tock.keys") if task.bucket_key == "acme"}
    assert len({instant for instant in newest if 1000 * (closed + 1) < instant < 1000 * (closed + 3)}) == 0


def test_a_firing_is_skipped_while_the_former_task_is_open(bench: InProcess):
    """A run that is longer than its interval does not pile up."""
    node = bench.start(modules=MODULES)
    wait_until(lambda: len(fired(node, "tick")) >= 4, "four instants")
    (slow,) = fired(node, "tick.slow")
    assert slow.status is S.RUNNING


def test_of_a_held_schedule_one_task_waits(bench: InProcess):
    """It runs once when the name is released."""
    node = bench.start(modules=MODULES)
    node.ask("hold", "tick", by="olga")
    before = {task.id for task in fired(node, "tick")}
    wait_until(lambda: len(fired(node, "tick.keys")) >= 6, "three instants")
    new = [task for task in fired(node, "tick") if task.id not in before]
    assert [task.status for task in new if not task.status.is_final] == [S.QUEUED]
    node.ask("unhold", "tick", by="olga")
    assert node.end_of(new[0].id).status is S.SUCCEEDED


def wait_for_instants(node: InProcess, count: int) -> None:
    """Until so many instants of `every="1s"` have passed."""
    clock = node.controller._term.firings.clock
    began = int(clock().timestamp())
    wait_until(lambda: clock().timestamp() > began + count + 0.3, f"{count} instants")


def test_without_the_store_a_firing_waits_and_the_newest_comes_after_it(bench: InProcess):
    """What could not be claimed before the next instant came is missed; nothing is made up for."""
    store = Fickle(bench.store)
    node = bench.start(store=store, modules=MODULES)
    wait_until(lambda: fired(node, "tick"), "the first")
    store.is_away = True
    wait_for_instants(node, 4)
    last = max(map(planned, fired(node, "tick")))
    store.is_away = False
    wait_until(lambda: len([task for task in fired(node, "tick") if planned(task) > last]) >= 2, "two more")
    tasks = fired(node, "tick")
    assert min(instant for instant in map(planned, tasks) if instant > last) - last >= 3000
    assert set(begins(node, tasks).values()) == {1}


class Slow(Fickle):
    """Its claims take longer than the interval."""

    def claim_firings(self, claims: Sequence[FiringClaim], **facts: Any) -> list[bool]:
        won: list[bool] = super().__getattr__("claim_firings")(claims, **facts)
        time.sleep(1.3)  # not to wait for anything: this is how slow it is
        return won


def test_a_store_that_is_slower_than_the_interval_lets_instants_run_late(bench: InProcess):
    """Each answer comes behind the next instant: what it claims runs all the same, once, and that one is skipped."""
    node = bench.start(store=Slow(bench.store), modules=MODULES)
    wait_until(lambda: len(fired(node, "tick")) >= 3, "three of them")
    tasks = fired(node, "tick")
    assert set(begins(node, tasks).values()) == {1}
    assert all(later - earlier >= 2000 for earlier, later in pairwise(sorted(map(planned, tasks))))


class Hanging(Fickle):
    """It claims an instant of `tick`, and answers when it is told to."""

    def __init__(self, store: TaskStore) -> None:
        super().__init__(store)
        self.claimed: list[datetime] = []
        self.answers = threading.Event()

    def claim_firings(self, claims: Sequence[FiringClaim], **facts: Any) -> list[bool]:
        won: list[bool] = super().__getattr__("claim_firings")(claims, **facts)
        self.claimed += [claim.planned for claim in claims if claim.name == "tick"]
        assert self.answers.wait(LIMIT)
        return won


@pytest.mark.parametrize("event", ["firing_refused", "firing_missed"])
def test_what_was_claimed_and_will_not_run_is_told_at_the_end(
    bench: InProcess, monkeypatch: pytest.MonkeyPatch, event: str
):
    """The answer comes while the supervisor ends, or is not waited for any longer: nobody else runs that instant."""
    store = Hanging(bench.store)
    monkeypatch.setattr(term, "FLUSH_SECONDS", 0.2 if event == "firing_missed" else LIMIT)
    told = LogCapture()
    log = structlog.wrap_logger(None, [told], structlog.make_filtering_bound_logger(logging.INFO))
    node = bench.start(store=store, modules=MODULES, log=log)
    wait_until(lambda: store.claimed, "a claim")
    node.controller.close_in_thread()
    first = "draining" if event == "firing_refused" else event
    wait_until(lambda: any(entry["event"] == first for entry in told.entries), first)
    store.answers.set()
    assert node.controller.wait(LIMIT)
    of_tick = [entry for entry in told.entries if entry.get("name") == "tick"]
    assert [(entry["event"], entry["planned"]) for entry in of_tick] == [(event, store.claimed[0].isoformat())]
    assert fired(node, "tick") == []


def test_a_supervisor_that_ends_fires_nothing(bench: InProcess):
    """Its last run is let end, and no new one comes."""
    node = bench.start(modules=MODULES, drain_seconds=30)
    wait_until(lambda: fired(node, "tick.slow"), "a long one")
    (slow,) = fired(node, "tick.slow")
    node.wait_for(slow.id, S.RUNNING)
    node.controller.close_in_thread()
    wait_until(lambda: node.controller._is_closing, "the drain")
    node.controller._term.thread.call(lambda: None)
    before = len(fired(node, "tick"))
    wait_for_instants(node, 3)
    assert len(fired(node, "tick")) <= before + 1  # one may have been submitted just before
    node.controller.hurry()
    assert node.end_of(slow.id).status is S.STOPPED
