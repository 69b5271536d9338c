"""Runs in cgroups of their own: everything of a run ends with it, whatever it did to be forgotten."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import unavailable
from node_bench import InProcess, S, Supervised, is_alive, wait_until

from chong.supervisor.containment import own_cgroup
from chong.worker import cgroup

MODULES = ("node_tasks", "group_tasks")


@pytest.fixture
def base() -> Iterator[Path]:
    """A cgroup v2 directory of the test's own; whatever a node made in it has to be gone at the end."""
    own = own_cgroup()
    if own is None or not os.access(own / "cgroup.procs", os.W_OK) or not os.access(own, os.W_OK):
        unavailable("no cgroup v2 directory can be written here")
    made = own / f"chong-test-{uuid.uuid4().hex[:8]}"
    made.mkdir()
    try:
        yield made
        assert [path.name for path in made.iterdir() if path.is_dir()] == []
    finally:
        cgroup.clear(str(made), 5)


@pytest.fixture
def place(base: Path, place: Supervised) -> Supervised:
    """It is gone before its cgroup has to be empty."""
    return place


@pytest.fixture
def contained(base: Path, bench: InProcess) -> InProcess:
    return bench.start(cgroup=str(base), modules=MODULES)


def told(node: InProcess | Supervised, name: str = "told") -> Any:
    path = node.root / name
    wait_until(path.exists, "what the task tells")
    return json.loads(path.read_text())


def is_frozen(group: str) -> bool:
    """Whether a freeze has taken effect on everything in it."""
    return "frozen 1" in Path(group, "cgroup.events").read_text()


def groups(base: Path) -> set[str]:
    """The runs' that are there."""
    return {group.name for node in base.iterdir() if node.is_dir() for group in node.iterdir() if group.is_dir()}


def supervise(place: Supervised, base: Path, **more: Any) -> Supervised:
    return place.start("--cgroup", str(base), "--tasks", "group_tasks", **more)


def test_each_run_has_a_group_of_its_own_and_it_goes_with_the_run(base: Path, contained: InProcess):
    """The level in force is on record with the node; nothing of a run is left, not even its directory."""
    first, second = (contained.begun("until", path=str(contained.root / "open")) for _ in range(2))
    assert groups(base) == {f"{first}.1", f"{second}.1"}
    (contained.root / "open").touch()
    contained.ends_of([first, second])
    wait_until(lambda: groups(base) == set(), "the groups' end")
    assert [node.containment for node in contained.store.nodes()] == ["cgroup"]


def test_what_a_run_leaves_behind_ends_with_it_and_nobody_else_does(base: Path, contained: InProcess):
    """Five that have shed group, marker and log, beside another run: without a cgroup nobody could say whose."""
    bystander = contained.begun("hold")
    ended = contained.run("group.escapes", told=str(contained.root / "told"))
    assert ended.outcome.endswith(f"/{ended.id}.1")
    pids = told(contained)["pids"]
    assert [pid for pid in pids if is_alive(pid)] == []
    log = contained.paths.log_of(f"{ended.id}.1").read_text()
    assert all(f"chong: killed process {pid} (" in log for pid in pids)
    assert contained.task(bystander).status is S.RUNNING
    assert is_alive(contained.worker_of(bystander))


def test_what_forks_faster_than_anybody_looks_ends_too(base: Path, contained: InProcess):
    """The kernel ends all of a group at once, also what is just being forked."""
    ended = contained.run("group.hops", told=str(contained.root / "told"))
    assert ended.status is S.SUCCEEDED
    wait_until(lambda: groups(base) == set(), "the group's end")
    assert not [title for title in contained.processes().values() if "hops" in title]


def test_a_stop_by_force_leaves_nothing_of_the_run(base: Path, contained: InProcess):
    """`stopped` is said when the leader and all that escaped it are gone."""
    task_id = contained.submit("group.escapes", told=str(contained.root / "told"), until="/nonexistent")
    facts = told(contained)
    os.kill(facts["own"], signal.SIGSTOP)
    contained.controller.stop(task_id)
    ended = contained.end_of(task_id)
    assert (ended.status, ended.forced) == (S.STOPPED, True)
    assert [pid for pid in facts["pids"] if is_alive(pid)] == []


def test_a_frozen_group_stands_still_as_a_whole_and_goes_on_when_thawed(base: Path, contained: InProcess):
    """Also what left the process group, which a SIGSTOP would not reach; and it can be stopped."""
    count = contained.root / "count"
    task_id = contained.submit("group.counts", told=str(count))
    wait_until(lambda: count.exists() and count.stat().st_size > 3, "counting")
    (group,) = [str(path) for path in base.glob("*/*.1")]
    cgroup.freeze(group)
    wait_until(lambda: is_frozen(group), "the freeze")
    stood = count.stat().st_size
    assert contained.run("noop").status is S.SUCCEEDED  # time passes for others
    assert count.stat().st_size == stood
    cgroup.thaw(group)
    wait_until(lambda: count.stat().st_size > stood, "counting on")
    cgroup.freeze(group)
    wait_until(lambda: is_frozen(group), "the freeze")
    cgroup.kill(group)
    assert contained.end_of(task_id).failure.cause == "SIGKILL"


def test_a_group_that_a_task_made_within_its_own_goes_as_well(base: Path, contained: InProcess):
    """With what is in it."""
    ended = contained.run("group.nested")
    assert (ended.status, ended.failure) == (S.SUCCEEDED, None)
    wait_until(lambda: not Path(ended.outcome).exists(), "the group's end")


def test_a_run_whose_forkserver_was_killed_ends_with_all_that_it_left(base: Path, contained: InProcess):
    """The supervisor sees the end itself, and empties the group as the forkserver would have."""
    until = contained.root / "open"
    task_id = contained.submit("group.escapes", told=str(contained.root / "told"), until=str(until))
    facts = told(contained)
    os.kill(contained.forkserver(), signal.SIGKILL)
    assert contained.run("noop").status is S.SUCCEEDED
    assert all(is_alive(pid) for pid in facts["pids"])
    until.touch()
    assert contained.end_of(task_id).status is S.SUCCEEDED
    wait_until(lambda: [pid for pid in facts["pids"] if is_alive(pid)] == [], "the end of what escaped")
    wait_until(lambda: f"{task_id}.1" not in groups(base), "the group's end")


def test_without_cgroups_the_node_says_so(bench: InProcess):
    """An operator sees in `chong nodes` what holds a run together."""
    node = bench.start(cgroup="none")
    assert [each.containment for each in node.store.nodes()] == ["process group"]


def test_the_next_supervisor_ends_what_a_dead_terms_runs_left(base: Path, place: Supervised):
    """The leash ends the process groups of a dead supervisor and forkserver; what had left them lives on till then."""
    node = supervise(place, base)
    task_id = node.submit("group.escapes", told=str(node.root / "told"), until="/nonexistent")
    facts = told(node)
    forkserver = node.forkserver()
    node.kill()
    os.kill(forkserver, signal.SIGKILL)
    wait_until(lambda: not is_alive(facts["own"]), "the leash")
    assert [pid for pid in facts["pids"] if not is_alive(pid)] == []
    supervise(place, base)
    assert [pid for pid in facts["pids"] if is_alive(pid)] == []
    assert groups(base) == set()
    assert node.end_of(task_id).status is S.LOST
    (event,) = node.events("containment")[-1:]
    assert (event["by"], Path(event["directory"]).parent) == ("cgroup", base)
    assert "CONTAINMENT" in node.cli("nodes").out
    assert [row["containment"] for row in node.cli("nodes", "--json").json] == ["cgroup"]


def test_a_run_that_is_taken_over_keeps_its_group(base: Path, place: Supervised):
    """The next supervisor clears what is dead, and only that."""
    node = supervise(place, base, lease=30)  # time enough to come back on a busy machine
    until = node.root / "open"
    task_id = node.submit("group.escapes", told=str(node.root / "told"), until=str(until))
    facts = told(node)
    node.wait_for(task_id, S.RUNNING)
    node.kill()
    supervise(place, base, lease=30)
    assert groups(base) == {f"{task_id}.1"}
    until.touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert [pid for pid in facts["pids"] if is_alive(pid)] == []


def test_what_forkservers_end_by_themselves_they_end_whole(base: Path, place: Supervised):
    """No supervisor comes back: nothing of the run may live on when its lease has run out."""
    node = supervise(place, base)
    node.submit("group.escapes", told=str(node.root / "told"), until="/nonexistent")
    facts = told(node)
    node.kill()
    wait_until(lambda: not node.processes(), "the forkserver's own end")
    assert [pid for pid in facts["pids"] if is_alive(pid)] == []
    assert groups(base) == set()
    supervise(place, base)


def root_cgroup() -> str:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4] for line in lines if line.partition(" - ")[2].startswith("cgroup2 ")]
    return mounts[0] if mounts else "/sys/fs/cgroup"


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("path", ["/nonexistent/group", "/tmp", "relative", root_cgroup()])
def test_a_directory_that_is_no_cgroup_is_refused_at_once(place: Supervised, path: str, check: tuple[str, ...]):
    """One line, exit 2, and nothing made: whoever asks for containment must not get less without a word."""
    said = place.refuse("--state-dir", str(place.state), "--cgroup", path, *check)
    (line,) = said.err.splitlines()
    assert (said.code, said.out) == (2, "")
    assert "cgroup: expected auto, none or " in line
    assert line.endswith(f"got {path!r}")
    assert not place.state.exists()


def test_a_freeze_holds_what_has_left_the_process_group(base: Path, contained: InProcess):
    """As an operator asks for it: resumed it goes on, and a stop thaws it first, so that it ends by itself."""
    count = contained.root / "count"
    task_id = contained.submit("group.counts", told=str(count))
    wait_until(lambda: count.exists() and count.stat().st_size > 3, "counting")
    contained.wait_for(task_id, S.RUNNING)
    (group,) = [str(path) for path in base.glob("*/*.1")]
    contained.controller.freeze(task_id)
    contained.wait_for(task_id, S.PAUSED)
    wait_until(lambda: is_frozen(group), "the freeze")
    stood = count.stat().st_size
    contained.controller.resume(task_id)
    wait_until(lambda: count.stat().st_size > stood, "counting on")
    contained.controller.freeze(task_id)
    wait_until(lambda: is_frozen(group), "the freeze")
    contained.controller.stop(task_id)
    ended = contained.end_of(task_id)
    assert (ended.status, ended.forced) == (S.STOPPED, False)


def test_a_frozen_run_is_thawed_before_the_orphans_ladder_ends_it(base: Path, place: Supervised):
    """No supervisor comes back: it cleans up by a handler that a frozen group would never call."""
    node = supervise(place, base)
    task_id = node.begun("group.heeds")
    node.client.freeze(task_id)
    assert node.wait_for(task_id, S.PAUSED).flags == {"frozen"}
    [group] = (path for home in base.iterdir() if home.is_dir() for path in home.iterdir() if path.is_dir())
    wait_until(lambda: is_frozen(str(group)), "its freeze")
    node.kill()
    wait_until(lambda: node.processes() == {}, "the end of everything")
    supervise(place, base, lease=30)
    assert node.end_of(task_id).status is S.FAILED
    assert [entry["word"] for entry in node.journal()] == ["begin", "cleaned"]
