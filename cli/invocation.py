"""What was said before the command: which store, which node, which buckets."""

from dataclasses import dataclass
from pathlib import Path

from chong.store.buckets import DEFAULT_NUM_BUCKETS, BucketPolicy, parse_buckets
from chong.store.errors import ConfigurationError
from chong.supervisor.identity import read_identity
from chong.supervisor.paths import Paths, default_node, default_runtime_dir, default_state_dir
from chong.supervisor.submission import NAME_LIMIT, check_text


@dataclass(frozen=True, slots=True)
class Invocation:
    """`owned` is None when no ownership was named; `num_buckets` is None when the store's number is adopted."""

    db: str | None
    num_buckets: int | None
    owned: frozenset[int] | None
    named_node: str | None
    state: Path
    named_runtime: Path | None

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
        pinned = read_identity(Paths(self.state, self.state).identity)
        if pinned is not None and self.named_node not in (None, pinned.node):
            raise ConfigurationError(
                f"--node: expected {pinned.node}, whose state directory {self.state} is, got {self.named_node}"
            )

    @property
    def paths(self) -> Paths:
        return Paths(self.state, self.named_runtime or default_runtime_dir(self.node, self.state))

    def agreed_policy(self, recorded: int | None) -> BucketPolicy:
        """The store's number of buckets; ConfigurationError when it contradicts what was named."""
        if None not in (self.num_buckets, recorded) and self.num_buckets != recorded:
            raise ConfigurationError(
                f"--num-buckets: expected {recorded}, as this store has recorded, got {self.num_buckets}"
            )
        policy = BucketPolicy(recorded or self.num_buckets or DEFAULT_NUM_BUCKETS)
        policy.check_owned(self.owned)
        return policy


def read_invocation(
    *,
    db: str | None,
    num_buckets: int | None,
    owned_buckets: str | None,
    node: str | None,
    state_dir: str | None,
    runtime_dir: str | None,
) -> Invocation:
    """Everything that can be judged without a store is judged here, before any command does anything."""
    owned = None if owned_buckets is None else parse_buckets(owned_buckets)
    if num_buckets is not None:
        BucketPolicy(num_buckets).check_owned(owned)
    if node:
        _check_node(node)
    return Invocation(
        db=db or None,
        num_buckets=num_buckets,
        owned=owned,
        named_node=node or None,
        state=Path(state_dir).expanduser() if state_dir else default_state_dir(),
        named_runtime=Path(runtime_dir).expanduser() if runtime_dir else None,
    )


def _check_node(node: str) -> None:
    check_text("--node", node, NAME_LIMIT)
    # The name becomes a directory below the runtime root.
    if "/" in node or node in (".", ".."):
        raise ConfigurationError(f"--node: expected a name without '/', got {node!r}")
