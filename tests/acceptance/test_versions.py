"""Nodes are upgraded one by one: two versions work side by side on tables that the later one has brought up to date."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from later_code import later_code
from node_bench import Answer, S, Supervised

from chong.store.schema import SCHEMA_VERSION
from chong.store.sqlite import SqliteTaskStore

Enter = Callable[[], Supervised]
LEASE = 240.0
"""Enough for a supervisor that is killed to be followed by one that is refused and by one that is not."""


@pytest.fixture(params=["sqlite", "postgres"])
def enter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Enter]:
    """One more place on the same store, whose supervisor is not started yet."""
    places: list[Supervised] = []
    file = tmp_path / "shared.db"

    def make() -> Supervised:
        place = Supervised()
        places.append(place)
        if request.param == "postgres":
            place.share(request.getfixturevalue("database"))
        else:
            place.database = file
            place.environment["CHONG_DB"] = str(file)
            SqliteTaskStore(file).close()
        return place

    try:
        yield make
    finally:
        for place in places:
            place.finish()


def upgrade(place: Supervised, code: Path) -> Supervised:
    """What this place starts from now on is the later version."""
    place.environment["PYTHONPATH"] = os.pathsep.join([str(code), place.environment["PYTHONPATH"]])
    return place


def done(answer: Answer) -> str:
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def test_two_versions_work_side_by_side(enter: Enter, tmp_path: Path):
    """Tasks, stops and holds go across both ways, while one version has more columns, tables and indexes."""
    code, version = later_code(tmp_path / "later")
    one, two, ours, theirs = enter(), enter(), enter(), enter()
    upgrade(two, code)
    upgrade(theirs, code)
    one.start("--node", "one")
    first = one.begun("hold")
    for place, schema in ((ours, SCHEMA_VERSION), (theirs, version), (ours, version)):
        assert f": schema {schema}, 64 buckets\n" in done(place.cli("migrate"))
    two.start("--node", "two")
    second = two.begun("hold")
    for place in (ours, theirs):
        assert {row["id"]: row["node"] for row in place.cli("ps", "--json").json} == {first: "one", second: "two"}
    assert {row["node"]: row["version"] for row in ours.cli("nodes", "--json").json} == {"one": "0.1.0", "two": "0.2.0"}
    found = [row for row in ours.cli("doctor", "--json").json if row["kind"] == "versions"]
    assert [row["detail"] for row in found] == ["0.1.0 on one; 0.2.0 on two"]
    done(ours.cli("pause", second, "--wait"))
    done(theirs.cli("resume", second, "--wait"))
    done(ours.cli("stop", second, "--wait"))
    done(theirs.cli("stop", first, "--wait"))
    assert {ours.task(task_id).status for task_id in (first, second)} == {S.STOPPED}
    for asks, lifts in ((ours, theirs), (theirs, ours)):
        done(asks.cli("hold", "--name", "noop", "--wait"))
        held = [node.submit("noop") for node in (one, two)]
        assert all("name" in str(lifts.cli("show", task_id, "--json").json["hold"]) for task_id in held)
        done(lifts.cli("unhold", "--name", "noop", "--wait"))
        assert {task.status for task in ours.ends_of(held)} == {S.SUCCEEDED}
    # A restart meets the later tables from the beginning.
    assert one.terminate() == 0
    one.start("--node", "one")
    assert one.end_of(one.submit("noop")).status is S.SUCCEEDED


def test_code_that_is_too_old_is_refused_and_hurts_nothing_that_runs(enter: Enter, tmp_path: Path):
    """One line and exit 2; what it has started goes on, and the later version takes over what it has left."""
    code, version = later_code(tmp_path / "later", steps=2, oldest_code=SCHEMA_VERSION + 2)
    one, theirs = enter(), upgrade(enter(), code)
    one.start("--node", "one", lease=LEASE)
    first, second = (one.begun("until", path=str(one.root / name)) for name in ("first", "second"))
    assert f": schema {version}, 64 buckets\n" in done(theirs.cli("migrate"))
    said = f"has schema {version}, for code that knows schema {version} or newer; this one knows {SCHEMA_VERSION}"
    told = one.cli("ps")
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert said in told.err
    (one.root / "first").touch()
    assert one.end_of(first).status is S.SUCCEEDED
    one.kill()
    for words in ((), ("--check",)):
        told = one.refuse("--state-dir", str(one.state), "--node", "one", "--tasks", "node_tasks", *words)
        assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
        assert said in told.err
    upgrade(one, code).start("--node", "one", lease=LEASE)
    (one.root / "second").touch()
    assert one.end_of(second).status is S.SUCCEEDED
    assert len(one.journal("begin")) == 2
