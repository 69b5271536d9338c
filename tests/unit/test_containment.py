"""Where a node's cgroups are, and what is said when they cannot be."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from needs import unavailable

from chong.store.errors import ConfigurationError
from chong.supervisor.containment import Containment, _enable, check_cgroup, contain, own_cgroup
from chong.worker import cgroup

FIND = "from chong.supervisor.containment import contain; print(contain('auto', 'chong-x').directory)"


@pytest.fixture
def base():
    own = own_cgroup()
    if own is None or not os.access(own, os.W_OK):
        unavailable("no cgroup v2 directory can be written here")
    made = own / f"chong-test-{uuid.uuid4().hex[:8]}"
    made.mkdir()
    yield made
    cgroup.clear(str(made), 5)


def found_in(group: Path) -> str:
    """What `auto` finds for a supervisor that lives in this group."""
    words = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$1" -c "$2"', group, sys.executable, FIND]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_auto_takes_nothing_that_was_not_delegated(base):
    """A group that somebody else manages is not ours to divide."""
    assert found_in(base) == "None"


@pytest.mark.parametrize("attribute", ["user.delegate", "trusted.delegate"])
def test_auto_takes_what_systemd_has_delegated(base, attribute):
    """`Delegate=yes` marks the unit's group."""
    os.setxattr(base, attribute, b"1")
    assert found_in(base) == str(base / "chong-x")
    assert (base / "chong-x" / "cgroup.procs").exists()


def test_auto_takes_the_group_above_a_delegated_subgroup(base):
    """`DelegateSubgroup=` starts the supervisor one below, so that the group above it is free for controllers."""
    os.setxattr(base, "user.delegate", b"1")
    (base / "supervisor").mkdir()
    assert found_in(base / "supervisor") == str(base / "chong-x")


def test_a_frozen_group_is_emptied_and_removed(base):
    """What a dead term had frozen must not be there for ever."""
    group = cgroup.make(str(base), "r.1")
    child = subprocess.Popen(["sh", "-c", f"echo $$ > {group}/cgroup.procs; echo in; exec sleep 600"], stdout=-1)
    assert child.stdout.readline() == b"in\n"
    cgroup.freeze(group)
    assert cgroup.is_populated(group)
    assert cgroup.members(group) == [child.pid]
    assert cgroup.groups_of(child.pid)[-1] == "r.1"
    assert Containment(base).clear(frozenset({"r.1"})) == []
    assert child.poll() is None
    assert Containment(base).clear(frozenset()) == []
    assert (child.wait(), Path(group).exists()) == (-9, False)
    child.stdout.close()


def test_a_group_that_cannot_be_removed_is_named(tmp_path):
    """It is reported, and the term goes on; here the directory is no cgroup at all."""
    (tmp_path / "r.1").mkdir()
    assert Containment(tmp_path).clear(frozenset()) == ["r.1"]


def test_none_means_no_cgroup():
    """Nothing is looked for, and nothing needs to be there."""
    assert contain("none", "chong-x") == Containment()
    assert Containment().level == "process group"
    assert Containment().kill("r.1") == []


@pytest.mark.parametrize("path", ["some/where", "/nonexistent", "/proc"])
def test_a_path_that_is_no_cgroup_is_refused_with_what_was_expected(path):
    """Whoever names a directory wants containment, and must not get less without a word."""
    with pytest.raises(ConfigurationError, match=f"cgroup: expected .*got '{path}'"):
        check_cgroup(path)


def test_controllers_are_enabled_as_far_as_they_are_there(tmp_path):
    """One that is not delegated is no error, it only keeps no limit; files stand in for the kernel's."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    _enable(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"


def test_memory_is_limited_where_the_controller_is(tmp_path):
    """Swap counts as memory, else the limit would only slow the run down; files stand in for the kernel's."""
    assert not cgroup.limit_memory(str(tmp_path / "none"), 1 << 20)
    for name in ("memory.max", "memory.swap.max"):
        (tmp_path / name).write_text("max")
    assert cgroup.limit_memory(str(tmp_path), 1 << 20)
    assert [(tmp_path / name).read_text() for name in ("memory.max", "memory.swap.max")] == [
        "1048576",
        "0ax",  # a plain file keeps its tail
    ]


@pytest.mark.parametrize(("events", "kills"), [("low 0\noom 4\noom_kill 2\noom_group_kill 1\n", 2), ("low 0\n", 0)])
def test_only_kills_count_as_evidence(tmp_path, events, kills):
    """`oom` counts failed allocations as well, which ended nobody."""
    (tmp_path / "memory.events").write_text(events)
    assert cgroup.oom_kills(str(tmp_path)) == kills
    assert Containment(tmp_path.parent).has_oom(tmp_path.name) == (kills > 0)
