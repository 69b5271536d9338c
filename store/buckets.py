"""Which bucket a key belongs to, and the text form of a set of buckets ("0-15,20")."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

from chong.store.errors import ConfigurationError

DEFAULT_NUM_BUCKETS = 64
MAX_NUM_BUCKETS = 65_536

_ITEM = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?\Z")


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
        strangers = [b for b in buckets if not 0 <= b < self.num_buckets]
        if strangers:
            raise self._strange(format_buckets(strangers))
        return buckets

    def check_ranges(self, owned: Iterable[range]) -> None:
        """As `check_owned`, of ranges that have no bucket in common."""
        strangers = [
            range(max(span.start, self.num_buckets), span.stop) for span in owned if span.stop > self.num_buckets
        ]
        if strangers:
            raise self._strange(format_ranges(strangers))

    def _strange(self, buckets: str) -> ConfigurationError:
        return ConfigurationError(f"owned buckets: expected 0 to {self.num_buckets - 1}, got {buckets}")

    def covers_all(self, owned: frozenset[int] | None) -> bool:
        """Whether `owned` makes no partition: not limited, or every bucket listed."""
        return owned is None or len(owned) == self.num_buckets


def parse_buckets(text: str) -> frozenset[int]:
    """Read "0-15,20"; ConfigurationError names the item that is not understood, runs backwards or overlaps."""
    return frozenset(chain.from_iterable(parse_ranges(text)))


def parse_ranges(text: str) -> list[range]:
    """As `parse_buckets`, in the text's order: for whoever looks at many sets and at none of their buckets."""
    ranges: list[range] = []
    taken = bytearray(MAX_NUM_BUCKETS)
    for item in text.split(","):
        span = _range(item.strip())
        if taken.find(1, span.start, span.stop) >= 0:
            twice = format_buckets(bucket for bucket in span if taken[bucket])
            raise ConfigurationError(f"bucket list: {twice} is named twice, last in {item.strip()!r}")
        taken[span.start : span.stop] = b"\1" * len(span)
        ranges.append(span)
    return ranges


def _range(item: str) -> range:
    found = _ITEM.match(item)
    if found is None:
        raise ConfigurationError(f"bucket list: expected items like 7 or 0-15 separated by commas, got {item[:40]!r}")
    first = int(found[1])
    last = int(found[2] or first)
    if last < first:
        raise ConfigurationError(f"bucket list: {item!r} runs backwards, did you mean {last}-{first}?")
    if last >= MAX_NUM_BUCKETS:
        raise ConfigurationError(f"bucket list: expected buckets below {MAX_NUM_BUCKETS}, got {last}")
    return range(first, last + 1)


def format_buckets(buckets: Iterable[int]) -> str:
    """The shortest text that `parse_buckets` reads back."""
    return format_ranges(range(bucket, bucket + 1) for bucket in set(buckets))


def format_ranges(ranges: Iterable[range]) -> str:
    """As `format_buckets`, of ranges that have no bucket in common."""
    runs: list[list[int]] = []
    for start, stop in sorted((span.start, span.stop) for span in ranges):
        if runs and start == runs[-1][1]:
            runs[-1][1] = stop
        else:
            runs.append([start, stop])
    return ",".join(str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in runs)
