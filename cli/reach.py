"""A store that was reached, after the ownership was checked against its number of buckets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chong.cli.invocation import Invocation
from chong.store.buckets import BucketPolicy
from chong.store.contract import TaskStore, refuse
from chong.store.errors import ConfigurationError
from chong.store.open import open_store


@dataclass(frozen=True, slots=True)
class Reached:
    store: TaskStore
    policy: BucketPolicy
    owned: frozenset[int] | None

    @property
    def partition(self) -> frozenset[int] | None:
        """The buckets that are ours, None when all are."""
        return None if self.policy.covers_all(self.owned) else self.owned

    def mine(self) -> frozenset[int] | None:
        """`partition`, for commands that were asked for "mine" and so have to be told what that is."""
        if self.owned is None:
            raise ConfigurationError(
                "--mine: expected --owned-buckets, or owned_buckets in chong.toml, to say what is mine"
            )
        return self.partition

    def is_mine(self, bucket: int | None) -> bool:
        """Whether to mark it: without a word on ownership nothing is."""
        return self.owned is not None and (self.partition is None or bucket in self.partition)


@contextmanager
def reach(call: Invocation, *, whole: bool = False) -> Iterator[Reached]:
    """`whole`: what cannot be read ends the command, which must not act on a part of a list."""
    with open_store(call.url, create=False, on_unreadable=refuse if whole else call.unread.tell) as store:
        policy = call.agreed_policy(store.deployment().num_buckets)
        yield Reached(store, policy, call.owned_of(policy))
