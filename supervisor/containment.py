"""What holds a run together: a cgroup of its own where a cgroup v2 directory is ours, else its process group.

Controllers are enabled only where the kernel allows it: not in a directory that has a process of its own, such as the
supervisor. Moving that out of the way would be possible once; but then systemd could never start the next supervisor
there while runs of this one live on.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chong.store.errors import ConfigurationError
from chong.worker import cgroup

AUTO = "auto"
NONE = "none"
CONTROLLERS = ("memory", "pids")
CLEAR_SECONDS = 2.0

Level = Literal["cgroup", "process group"]


@dataclass(frozen=True, slots=True)
class Containment:
    """`directory` is this node's own, in which each run gets a group; None without cgroups."""

    directory: Path | None = None

    @property
    def level(self) -> Level:
        return "process group" if self.directory is None else "cgroup"

    @property
    def limits_memory(self) -> bool:
        """Whether `memory` of a definition is kept by the kernel for the run as a whole."""
        return self.directory is not None and "memory" in _words(self.directory / "cgroup.subtree_control")

    def group_of(self, run: str) -> str | None:
        return None if self.directory is None else str(self.directory / run)

    def kill(self, run: str) -> list[int]:
        """SIGKILL to everything in the run's group, if it has one; the pids that were in it."""
        if (group := self.group_of(run)) is not None:
            with suppress(OSError):  # it has ended, or was started without one
                pids = cgroup.members(group)
                cgroup.kill(group)
                return pids
        return []

    def freeze(self, run: str) -> bool:
        """Stop everything in the run's group; False when it has none."""
        return self._set_frozen(run, cgroup.freeze)

    def thaw(self, run: str) -> bool:
        return self._set_frozen(run, cgroup.thaw)

    def _set_frozen(self, run: str, act: Callable[[str], None]) -> bool:
        if (group := self.group_of(run)) is None:
            return False
        try:
            act(group)
        except OSError:  # it has ended, or was started without one
            return False
        return True

    def has_oom(self, run: str) -> bool:
        """Whether the kernel has killed something of the run for want of memory."""
        group = self.group_of(run)
        try:
            return group is not None and cgroup.oom_kills(group) > 0
        except OSError:
            return False

    def discard(self, run: str) -> None:
        cgroup.discard(self.group_of(run))

    def clear(self, living: frozenset[str]) -> list[str]:
        """End and remove what dead terms left, all but `living` runs; the names of those that could not be ended."""
        left = []
        for group in self.directory.iterdir() if self.directory is not None else ():
            if group.is_dir() and group.name not in living:
                try:
                    cgroup.clear(str(group), CLEAR_SECONDS)
                except OSError:
                    left.append(group.name)
        return left

    def close(self) -> None:
        """Remove the node's directory, if no run is in it."""
        if self.directory is not None:
            cgroup.discard(str(self.directory))


def contain(setting: str, name: str) -> Containment:
    """By `Settings.cgroup`, in a directory called `name`; ConfigurationError when it names one that cannot be used."""
    if setting == NONE:
        return Containment()
    base = _delegated() if setting == AUTO else check_cgroup(setting)
    if base is None:
        return Containment()
    directory = base / name
    try:
        directory.mkdir(exist_ok=True)
        _enable(base)
        _enable(directory)
    except OSError as error:
        if setting == AUTO:
            return Containment()
        raise ConfigurationError(f"cgroup: {directory} cannot be made: {error.strerror}") from error
    return Containment(directory)


def check_setting(setting: str) -> None:
    """Before anything is made: ConfigurationError when `Settings.cgroup` names a directory that cannot be used."""
    if setting not in {AUTO, NONE}:
        check_cgroup(setting)


def check_cgroup(setting: str) -> Path:
    """The directory that a setting names; ConfigurationError unless it is a cgroup v2 one that we may use."""
    path = Path(setting)
    if not path.is_absolute():
        raise ConfigurationError(f"cgroup: expected auto, none or the path of a cgroup v2 directory, got {setting!r}")
    own = own_cgroup()
    if own is None or not _is_usable(path):
        raise ConfigurationError(
            f"cgroup: expected auto, none or a cgroup v2 directory with a cgroup.kill{_example(own)}, got {setting!r}"
        )
    # Who moves a process has to be allowed to write to what is above both places.
    above = Path(os.path.commonpath([path, own])) / "cgroup.procs"
    for needed in (path, path / "cgroup.procs", above):
        if not os.access(needed, os.W_OK):
            raise ConfigurationError(f"cgroup: expected a directory that may be used, {needed} cannot be written")
    return path


def _example(own: Path | None) -> str:
    """The nearest place that can be used, where there is one."""
    if own is None:
        return ", of which none is mounted here"
    return f", such as {own}" if _is_usable(own) and os.access(own, os.W_OK) else ", which the root has not"


def own_cgroup() -> Path | None:
    """Our own cgroup v2 directory, None where none is mounted."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    inner = next((line[3:] for line in lines if line.startswith("0::")), None)
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        if after.split()[0] == "cgroup2" and inner is not None and Path(inner).is_relative_to(root):
            return Path(mount) / Path(inner).relative_to(root)
    return None


def _delegated() -> Path | None:
    """Our own cgroup, or the one above it (`DelegateSubgroup=`), when systemd has delegated it."""
    own = own_cgroup()
    for path in (own, own.parent) if own is not None else ():
        if any(_attribute(path, name) == b"1" for name in ("trusted.delegate", "user.delegate")):
            return path if _is_usable(path) and os.access(path / "cgroup.procs", os.W_OK) else None
    return None


def _is_usable(path: Path) -> bool:
    """Not the root, and Linux 5.14 or newer: else a group cannot be killed as one."""
    return (path / "cgroup.kill").exists()


def _attribute(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name)
    except OSError:
        return None


def _enable(directory: Path) -> None:
    """As many of the controllers as are delegated, and as the kernel lets us."""
    there = _words(directory / "cgroup.controllers")
    for name in CONTROLLERS:
        if name in there:
            with suppress(OSError):  # a process is in it: then without
                (directory / "cgroup.subtree_control").write_text(f"+{name}", encoding="ascii")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
