"""The number of buckets may change behind the back of a node that was cut off: who counts by the old one must end."""

from chong.store.contract import TaskStore
from chong.store.errors import Rebucketed


def refuse_rebucketed(store: TaskStore, ours: int) -> None:
    """Rebucketed when the deployment has recorded another number than ours."""
    recorded = store.deployment().num_buckets
    if recorded is not None and recorded != ours:
        raise Rebucketed(recorded, ours)
