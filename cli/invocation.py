"""What was said before the command: which store, which node, which buckets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chong.cli.unread import Unread
from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy
from chong.store.errors import ConfigurationError
from chong.supervisor.config import Config, Found, configured, listed
from chong.supervisor.identity import read_identity
from chong.supervisor.keys import SHARED
from chong.supervisor.paths import Paths
from chong.worker.whereabouts import default_node, default_runtime_dir


@dataclass(frozen=True, slots=True)
class Invocation:
    """`owned` is None when no ownership was named; `num_buckets` is None when the store's number is adopted.

    `config` has what only a supervisor reads, for a command that is one for a while.
    """

    config: Config
    db: str | None
    num_buckets: int | None
    owned: frozenset[int] | None
    named_node: str | None
    state: Path
    named_runtime: Path | None
    unread: Unread = field(default_factory=Unread)
    """What its looks had to go without."""

    @property
    def url(self) -> str:
        return self.db or str(Paths(self.state, self.state).default_store)

    @property
    def node(self) -> str:
        """The node that was named, else the one pinned in the state directory, else what a first start would pin."""
        if self.named_node:
            return self.named_node
        pinned = read_identity(Paths(self.state, self.state).identity)
        return pinned.node if pinned else default_node()

    def check_node(self) -> None:
        """For what is handed to this node's supervisor: another node's work does not belong into its socket."""
        file = self.config.file
        if file is not None and file.nodes and self.config.share is None:
            raise ConfigurationError(
                f"{file.path}: expected one of the nodes {listed(file.nodes)} by --node or CHONG_NODE, "
                f"got none: {self.node} is none of them, and a node's supervisor is asked on its own machine"
            )
        pinned = read_identity(Paths(self.state, self.state).identity)
        if pinned is not None and self.named_node not in (None, pinned.node):
            raise ConfigurationError(
                f"--node: expected {pinned.node}, whose state directory {self.state} is, got {self.named_node}"
            )

    @property
    def paths(self) -> Paths:
        return Paths(self.state, self.named_runtime or default_runtime_dir(self.node, self.state))

    def agreed_policy(self, recorded: int | None) -> BucketPolicy:
        """The store's number of buckets; ConfigurationError when it contradicts what was said to this command.

        A chong.toml is about one deployment, and a command may look at another one's store: there the file's number
        counts for nothing.
        """
        check_number(self.said("num_buckets"), recorded)
        policy = BucketPolicy(recorded or self.num_buckets or DEFAULT_NUM_BUCKETS)
        policy.check_owned(self.owned_of(policy))
        return policy

    def owned_of(self, policy: BucketPolicy) -> frozenset[int] | None:
        """`owned`, without what the file says of the buckets of another deployment."""
        if self.said("owned_buckets") is None and self.num_buckets not in (None, policy.num_buckets):
            return None
        return self.owned

    def said(self, name: str) -> Found | None:
        """By an option or a variable."""
        return replace(self.config, file=None).find(name)


def check_number(found: Found | None, recorded: int | None) -> None:
    """ConfigurationError, with where the number stands, when the store has recorded another one."""
    if found is not None and recorded is not None and found.value != recorded:
        raise ConfigurationError(f"{found.origin}: expected {recorded}, as this store has recorded, got {found.value}")


def check_said(said: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """What stands before the command and in the environment, checked without the file: a command may be about it."""
    config = Config(said, environ)
    _check(config)
    return config


def read_invocation(said: Mapping[str, Any]) -> Invocation:
    """Everything that can be judged without a store is judged here, before any command does anything."""
    config = configured(said, is_node=False)
    found = _check(config)
    return Invocation(
        config=config,
        db=found["db"],
        num_buckets=found["num_buckets"],
        owned=found["owned_buckets"],
        named_node=config.share.value if config.share else found["node"],
        state=config.state_dir,
        named_runtime=found["runtime_dir"],
    )


def _check(config: Config) -> dict[str, Any]:
    found = {name: config.value(name) for name in SHARED}
    if found["num_buckets"] is not None:
        BucketPolicy(found["num_buckets"]).check_owned(found["owned_buckets"])
    return found
