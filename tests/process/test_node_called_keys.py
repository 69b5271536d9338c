"""Keys that functions tell: each has its firings, and a function that is bad costs its own task only."""

import json

import pytest
from node_bench import InProcess
from waiting import wait_until

from chong.store.query import TaskQuery
from chong.supervisor import called_keys

MODULES = ("node_tasks", "node_called_keys")
BAD = {
    "bad.hanging": "it took longer than 1 s, and was killed",
    "bad.halfway": "ValueError: the customers' table is locked (",
    "bad.numbers": "expected printable strings of 1 to 500 characters, got 1",
    "bad.endless": "expected at most 100000 keys, got more",
    "bad.text": "expected keys, one after the other, got str",
    "bad.nothing": "expected keys, one after the other, got NoneType",
    "bad.leaving": "it ended without an answer",
    "bad.crashing": "exit 134",
}


@pytest.fixture
def quick(monkeypatch):
    """Calls follow one another, and have a second each."""
    for name, seconds in {"SECONDS": 1.0, "EVERY_SECONDS": 0.2, "AGAIN_SECONDS": 0.2}.items():
        monkeypatch.setattr(called_keys, name, seconds)


def fired(node: InProcess) -> set[str | None]:
    return {task.bucket_key for task in node.store.query(TaskQuery(names=frozenset({"told"}), limit=1000))}


def error_of(node: InProcess, name: str) -> str:
    return next((entry.error or "" for entry in node.store.catalogue("node-a") if entry.name == name), "")


def planned(node: InProcess) -> tuple[str | None, ...] | None:
    plan = node.controller._term.firings._schedule.plans.get("told")
    return None if plan is None else plan.keys


@pytest.mark.usefixtures("quick")
def test_keys_come_and_go_as_their_function_tells(bench: InProcess):
    """Those that it told last stay when it fails, also over new code; what it does is told until it is mended."""
    keys = bench.root / "keys"
    keys.write_text(json.dumps(["globex", "acme", "acme"]))
    node = bench.start(modules=MODULES)
    wait_until(lambda: fired(node) == {"acme", "globex"}, "firings of both")
    keys.write_text(json.dumps(["globex", "initech"]))
    wait_until(lambda: "initech" in fired(node), "a firing of the new one")
    assert planned(node) == ("globex", "initech")
    keys.write_text("{")
    wait_until(lambda: "; the 2 of before stay" in error_of(node, "told"), "the error")
    node.controller.reload()
    wait_until(lambda: planned(node) == ("globex", "initech"), "the same keys")
    keys.write_text("[]")
    wait_until(lambda: planned(node) == () and not error_of(node, "told"), "no keys")


@pytest.mark.usefixtures("quick")
def test_a_function_that_is_bad_costs_its_own_task_only(bench: InProcess):
    """It raises, hangs, leaves, crashes, or tells what are no keys: its error is shown, and nothing of it is left."""
    (bench.root / "keys").write_text('["acme"]')
    node = bench.start(modules=MODULES, owned_buckets=range(64))
    for name, error in BAD.items():
        wait_until(lambda: error_of(node, name), f"the error of {name}")  # noqa: B023 - called at once
        assert error_of(node, name).startswith(f"keys: {error}")
        assert error_of(node, name).endswith("; nothing is fired until it tells some")
    wait_until(lambda: fired(node) == {"acme"}, "a firing of the good one")


@pytest.mark.usefixtures("quick")
def test_a_part_of_the_buckets_gets_its_own_keys_only(bench: InProcess):
    """acme falls into bucket 1, globex into 26; and a schedule without keys of its own may be told some there."""
    (bench.root / "keys").write_text('["acme", "globex"]')
    node = bench.start(modules=MODULES, owned_buckets=range(16))
    wait_until(lambda: planned(node) == ("acme",), "the keys")
