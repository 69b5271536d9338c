"""How a node runs: one frozen object, validated before anything happens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy
from chong.store.errors import ConfigurationError
from chong.supervisor.files import check_plain, check_private, make_private
from chong.supervisor.keys import DEFAULTS, FIELDS, Key
from chong.supervisor.paths import Paths
from chong.supervisor.share import ConfiguredBuckets
from chong.worker.whereabouts import default_node, default_runtime_dir, default_state_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What each field means, and its bounds, stand in the table of keys; ConfigurationError for a value outside.

    Lengths of time are in seconds; those of `keep_logs`, `keep_tasks`, `keep_spool` and `keep_submissions` in days.
    None means no limit, for ever, or the default that the property of the same name derives.

    worker_open_files: the soft limit of open files for workers, None for this process's own.
    only_one_task: whether it is there for one task alone: no definition with `every` is fired, no alert raised.
    configured: what the configuration file says that each node owns.
    """

    node: str = field(default_factory=default_node)
    owned_buckets: frozenset[int] | None = DEFAULTS["owned_buckets"]
    num_buckets: int | None = DEFAULTS["num_buckets"]
    max_parallel: int = DEFAULTS["max_parallel"]
    max_parallel_per_bucket: int | None = DEFAULTS["max_parallel_per_bucket"]
    breaker_crashes: int | None = DEFAULTS["breaker_crashes"]
    lease_seconds: float = DEFAULTS["lease_seconds"]
    renew_seconds: float | None = DEFAULTS["renew_seconds"]
    poll_seconds: float = DEFAULTS["poll_seconds"]
    drain_seconds: float = DEFAULTS["drain_seconds"]
    import_seconds: float = DEFAULTS["import_seconds"]
    modules: tuple[str, ...] = DEFAULTS["modules"]
    worker_open_files: int | None = None
    only_one_task: bool = False
    pass_env: tuple[str, ...] = DEFAULTS["pass_env"]
    cgroup: str = DEFAULTS["cgroup"]
    keep_logs: float | None = DEFAULTS["keep_logs"]
    keep_logs_gib: float | None = DEFAULTS["keep_logs_gib"]
    keep_tasks: float | None = DEFAULTS["keep_tasks"]
    keep_spool: float | None = DEFAULTS["keep_spool"]
    keep_submissions: float | None = DEFAULTS["keep_submissions"]
    alert_command: str | None = DEFAULTS["alert_command"]
    alert_seconds: float = DEFAULTS["alert_seconds"]
    orphan_after: float = DEFAULTS["orphan_after"]
    configured: ConfiguredBuckets = field(default_factory=dict)
    state_dir: Path | None = DEFAULTS["state_dir"]
    runtime_dir: Path | None = DEFAULTS["runtime_dir"]

    def __post_init__(self) -> None:
        for field_name, key in FIELDS.items():
            _check(key, field_name, getattr(self, field_name))
        # A lease must survive two lost renewals; a ttl close to the interval made others judge the living dead.
        if self.renewal > self.lease_seconds / 3:
            raise ConfigurationError(
                f"renew seconds: expected at most a third of the lease of {self.lease_seconds:g}, got {self.renewal:g}"
            )
        if self.num_buckets is not None:
            BucketPolicy(self.num_buckets).check_owned(self.owned_buckets)

    @property
    def hello_seconds(self) -> float:
        """How long a forkserver may take to load the task modules; it bounds itself, beyond it is stuck.

        Two import limits for trying modules out, one for their import, and one to spare.
        """
        return 4 * self.import_seconds + 10.0

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

    def agreed_policy(self, recorded: int | None) -> BucketPolicy:
        """As the function of this name, for ours."""
        return agreed_policy(recorded, self.num_buckets, self.owned_buckets)

    def make_directories(self) -> None:
        """Make sure of the node's directories, ours alone; ConfigurationError otherwise."""
        for directory in self.paths.own_directories():
            make_private(directory)

    def check_directories(self) -> None:
        """ConfigurationError where `make_directories` would fail, as far as that can be told without making any."""
        for directory in self.paths.own_directories():
            check_private(directory)

    def check_files(self) -> None:
        """Before any of them is used: ConfigurationError when one cannot be."""
        for path in self.paths.own_files():
            check_plain(path)


def agreed_policy(recorded: int | None, named: int | None, owned: frozenset[int] | None) -> BucketPolicy:
    """By the number that the deployment has recorded, else the named one; ConfigurationError when they differ.

    Also when a bucket of `owned` is out of its range.
    """
    policy = BucketPolicy(named or recorded or DEFAULT_NUM_BUCKETS)
    if recorded not in (None, policy.num_buckets):
        raise ConfigurationError(
            f"number of buckets: expected {recorded} as the deployment has recorded, got {policy.num_buckets}"
        )
    policy.check_owned(owned)
    return policy


def _check(key: Key, field_name: str, value: Any) -> None:
    if value is None:
        return
    try:
        key.check(value)
    except ValueError as error:
        raise ConfigurationError(f"{field_name.replace('_', ' ')}: {error}") from None


def owned(buckets: Iterable[int] | None) -> frozenset[int] | None:
    return None if buckets is None else frozenset(buckets)
