"""What a chong.toml gives to one node, for a comparison with what the node has declared."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """`owned` is None for everything; `fault` says why that cannot be known.

    num_buckets: the file's, None where it names none. origin, number_origin: where the two stand in it, for people.
    """

    owned: frozenset[int] | None = None
    num_buckets: int | None = None
    origin: str = "chong.toml"
    number_origin: str = "chong.toml"
    fault: str | None = None


ConfiguredBuckets = Mapping[str, Share]
"""By node; empty where no file names nodes."""
