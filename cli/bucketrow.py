"""The rows of `chong buckets`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from chong.store.buckets import BucketPolicy
from chong.store.model import BucketLoad
from chong.supervisor.coverage import Cover, Owners


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """`bucket` is None for keyless work; `live_owners` those of `owners` that are alive; `hold` why work waits."""

    bucket: int | None
    owners: tuple[str, ...]
    live_owners: tuple[str, ...]
    state: Cover
    queued: int
    running: int
    expired: int
    oldest_wait: timedelta | None
    mine: bool
    hold: str | None = None


def bucket_rows(
    policy: BucketPolicy, owners: Owners, loads: Sequence[BucketLoad], is_mine: Callable[[int | None], bool]
) -> list[BucketRow]:
    """Every bucket, whether or not a node has ever been here."""
    by_bucket = {load.bucket: load for load in loads}
    shown: set[int | None] = {*by_bucket, *range(policy.num_buckets)}
    ordered = sorted(shown, key=lambda bucket: -1 if bucket is None else bucket)
    return [_row(bucket, owners, by_bucket.get(bucket), mine=is_mine(bucket)) for bucket in ordered]


def _row(bucket: int | None, owners: Owners, load: BucketLoad | None, *, mine: bool) -> BucketRow:
    load = load or BucketLoad(bucket, 0, 0, 0, None)
    return BucketRow(
        bucket=bucket,
        owners=owners.of(bucket),
        live_owners=owners.live_owners(bucket),
        state=owners.state(bucket),
        queued=load.queued,
        running=load.running,
        expired=load.expired,
        oldest_wait=load.oldest_wait,
        mine=mine,
    )
