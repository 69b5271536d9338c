"""How a node runs: one frozen object, validated before anything happens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chong.store.buckets import BucketPolicy
from chong.store.errors import ConfigurationError
from chong.supervisor.environment import check_pass_env
from chong.supervisor.files import make_private
from chong.supervisor.paths import Paths, default_node, default_runtime_dir, default_state_dir
from chong.supervisor.submission import check_text

NODE_LIMIT = 100
MOST_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Lengths of time are in seconds; None means the default that the property of the same name derives.

    owned_buckets: the buckets of this node, None for all. num_buckets: None adopts what the store has recorded.
    max_parallel: runs at one time on the node; max_parallel_per_bucket: in each bucket, None for no limit.
    lease_seconds: how long a run's lease lasts without renewal; renew_seconds: how often it is renewed.
    modules: task modules beside those registered as entry points.
    worker_open_files: the soft limit of open files for workers, None for this process's own.
    pass_env: names of this process's environment variables that tasks see beside the basic ones; patterns with
    `*`, `?` and `[…]` too.
    cgroup: a cgroup v2 directory of our own, in which each run gets one; "auto" for this process's own where it was
    delegated by systemd, "none" for no cgroups.
    keep_logs, keep_tasks, keep_spool: days after which logs, finished tasks in the store and set-aside files go, None
    for never. keep_logs_gib: how much all logs may take, the oldest go first.
    """

    node: str = field(default_factory=default_node)
    owned_buckets: frozenset[int] | None = None
    num_buckets: int | None = None
    max_parallel: int = 16
    max_parallel_per_bucket: int | None = None
    lease_seconds: float = 30.0
    renew_seconds: float | None = None
    poll_seconds: float = 1.0
    drain_seconds: float = 30.0
    import_seconds: float = 60.0
    modules: tuple[str, ...] = ()
    worker_open_files: int | None = None
    pass_env: tuple[str, ...] = ()
    cgroup: str = "auto"
    keep_logs: float | None = 30.0
    keep_logs_gib: float | None = 10.0
    keep_tasks: float | None = None
    keep_spool: float | None = 30.0
    state_dir: Path | None = None
    runtime_dir: Path | None = None

    def __post_init__(self) -> None:
        check_text("node", self.node, NODE_LIMIT)
        if "/" in self.node or self.node in {".", ".."}:  # it names a directory below the runtime root
            raise ConfigurationError(f"node: expected a name without a slash, got {self.node!r}")
        self._check_at_least("max parallel", self.max_parallel, 1)
        if self.max_parallel_per_bucket is not None:
            self._check_at_least("max parallel per bucket", self.max_parallel_per_bucket, 1)
        for what in ("lease_seconds", "poll_seconds", "import_seconds", "renewal"):
            seconds = getattr(self, what)
            if not 0 < seconds <= MOST_SECONDS:
                told = what.replace("_", " ")
                raise ConfigurationError(f"{told}: expected more than 0 and at most {MOST_SECONDS}, got {seconds}")
        if not 0 <= self.drain_seconds <= MOST_SECONDS:
            raise ConfigurationError(f"drain seconds: expected 0 to {MOST_SECONDS}, got {self.drain_seconds}")
        # A lease must survive two lost renewals; a ttl close to the interval made others judge the living dead.
        if self.renewal > self.lease_seconds / 3:
            raise ConfigurationError(
                f"renew seconds: expected at most a third of the lease of {self.lease_seconds:g}, got {self.renewal:g}"
            )
        check_pass_env(self.pass_env)
        if self.num_buckets is not None:
            BucketPolicy(self.num_buckets).check_owned(self.owned_buckets)

    @property
    def renewal(self) -> float:
        return self.lease_seconds / 6 if self.renew_seconds is None else self.renew_seconds

    @property
    def hold(self) -> float:
        """How long a forkserver holds workers without a supervisor."""
        return self.lease_seconds / 2

    @property
    def ladder(self) -> float:
        """How long it then takes to end them: before their leases run out, or a judge would call the living lost."""
        return self.lease_seconds / 4

    @property
    def paths(self) -> Paths:
        state = self.state_dir or default_state_dir()
        return Paths(state, self.runtime_dir or default_runtime_dir(self.node, state))

    def make_directories(self) -> None:
        """Make sure of the node's directories, ours alone; ConfigurationError otherwise."""
        paths = self.paths
        for directory in (paths.state, paths.runtime, paths.logs, paths.runs, paths.accepted, paths.checkpoints):
            make_private(directory)

    @staticmethod
    def _check_at_least(what: str, value: int, least: int) -> None:
        if value < least:
            raise ConfigurationError(f"{what}: expected at least {least}, got {value}")


def owned(buckets: Iterable[int] | None) -> frozenset[int] | None:
    return None if buckets is None else frozenset(buckets)
