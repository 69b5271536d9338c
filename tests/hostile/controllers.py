"""A cgroup of a test's own with a limit on memory or processes, by whichever version of the interface has it."""

from pathlib import Path

from needs import unavailable
from node_bench import wait_until

LIMITS = {
    "memory": {1: "memory.limit_in_bytes", 2: "memory.max"},
    "pids": {1: "pids.max", 2: "pids.max"},
}
COUNTS = {1: "memory.oom_control", 2: "memory.events"}


class Limited:
    """A cgroup that a node is put into as a whole, as a container or a unit of systemd is."""

    def __init__(self, controller: str, name: str) -> None:
        self.controller = controller
        self._version, base = home_of(controller)
        self.path = base / name
        self.path.mkdir()

    @property
    def within(self) -> tuple[str, ...]:
        """A command that enters it and execs what follows."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$0" "$@"')

    def allow(self, most: int) -> None:
        """So many bytes or processes, however many there are now."""
        (self.path / LIMITS[self.controller][self._version]).write_text(str(most))

    def used(self) -> int:
        """Bytes."""
        name = {1: "memory.usage_in_bytes", 2: "memory.current"}[self._version]
        return int((self.path / name).read_text())

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        facts = dict(line.split() for line in (self.path / COUNTS[self._version]).read_text().splitlines())
        return int(facts["oom_kill"])

    def remove(self) -> None:
        wait_until(self._is_removed, "an end of the cgroup")

    def _is_removed(self) -> bool:
        try:
            self.path.rmdir()
        except OSError:  # what has ended is counted for a moment
            return False
        return True


def home_of(controller: str) -> tuple[int, Path]:
    """The interface's version, and a directory in which groups with this controller can be made; else a skip."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()[:3]
        mount = Path(before.split()[4])
        if kind == "cgroup" and controller in options.split(","):
            return 1, mount
        if kind == "cgroup2" and controller in (mount / "cgroup.subtree_control").read_text().split():
            return 2, mount
    return unavailable(f"no cgroup with the controller {controller} can be made here")
