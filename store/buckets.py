"""Which bucket a key belongs to, and the text form of a set of buckets ("0-15,20")."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from chong.store.errors import ConfigurationError

DEFAULT_NUM_BUCKETS = 64
MAX_NUM_BUCKETS = 65_536

_ITEM = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?\Z")


@dataclass(frozen=True, slots=True)
class BucketPolicy:
    """Maps a key to a bucket; the same in every process and on every machine of a deployment."""

    num_buckets: int = DEFAULT_NUM_BUCKETS

    def __post_init__(self) -> None:
        if not 1 <= self.num_buckets <= MAX_NUM_BUCKETS:
            raise ConfigurationError(f"number of buckets: expected 1 to {MAX_NUM_BUCKETS}, got {self.num_buckets}")

    def bucket_of(self, key: str) -> int:
        # Not hash(): that is salted per process, and equal keys would fall into different buckets.
        digest = blake2b(key.encode("utf-8"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.num_buckets

    def check_owned(self, owned: Iterable[int] | None) -> frozenset[int] | None:
        """The owned buckets as a set, None when ownership is not limited; ConfigurationError when out of range."""
        if owned is None:
            return None
        buckets = frozenset(owned)
        if not buckets:
            raise ConfigurationError("owned buckets: expected at least one bucket, got none")
        strangers = sorted(b for b in buckets if not 0 <= b < self.num_buckets)
        if strangers:
            raise ConfigurationError(
                f"owned buckets: expected 0 to {self.num_buckets - 1}, got {format_buckets(strangers)}"
            )
        return buckets

    def covers_all(self, owned: frozenset[int] | None) -> bool:
        """Whether `owned` makes no partition: not limited, or every bucket listed."""
        return owned is None or len(owned) == self.num_buckets


def parse_buckets(text: str) -> frozenset[int]:
    """Read "0-15,20"; ConfigurationError names the item that is not understood, runs backwards or overlaps."""
    buckets: set[int] = set()
    for item in text.split(","):
        found = _ITEM.match(item.strip())
        if found is None:
            raise ConfigurationError(
                f"bucket list: expected items like 7 or 0-15 separated by commas, got {item.strip()[:40]!r}"
            )
        first = int(found[1])
        last = int(found[2] or first)
        if last < first:
            raise ConfigurationError(f"bucket list: {item.strip()!r} runs backwards, did you mean {last}-{first}?")
        if last >= MAX_NUM_BUCKETS:
            raise ConfigurationError(f"bucket list: expected buckets below {MAX_NUM_BUCKETS}, got {last}")
        span = range(first, last + 1)
        twice = buckets.intersection(span)
        if twice:
            raise ConfigurationError(f"bucket list: {format_buckets(twice)} is named twice, last in {item.strip()!r}")
        buckets.update(span)
    return frozenset(buckets)


def format_buckets(buckets: Iterable[int]) -> str:
    """The shortest text that `parse_buckets` reads back."""
    runs: list[list[int]] = []
    for bucket in sorted(set(buckets)):
        if runs and bucket == runs[-1][1] + 1:
            runs[-1][1] = bucket
        else:
            runs.append([bucket, bucket])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
