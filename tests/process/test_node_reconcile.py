"""`Controller.reconcile`: a node judges the dead of its own buckets when it is asked to."""

from datetime import timedelta

from node_bench import InProcess, S, wait_until

from chong.store.model import LeaseGrant, TaskSnapshot
from chong.store.specimens import FOREIGN_TERM, put, start_of, stored_queued
from chong.store.sqlite import SqliteTaskStore

SHORT = timedelta(seconds=0.2)


def stored_dead(store: SqliteTaskStore, bucket: int) -> TaskSnapshot:
    """A run of another node, which nobody renews."""
    task = stored_queued(store, bucket, node="node-b", bucket=bucket, bucket_key=str(bucket), lease_owner=FOREIGN_TERM)
    return put(store, task, start_of(task), lease=LeaseGrant(FOREIGN_TERM, SHORT))


def test_a_controller_calls_lost_whose_lease_is_past_in_its_own_buckets(bench: InProcess):
    """A dry run only names them; what lies in other buckets is somebody else's to judge."""
    node = bench.start(num_buckets=64, owned_buckets=[1])
    ours, theirs = (stored_dead(node.store, bucket) for bucket in (1, 2))
    wait_until(lambda: all(lease.is_past for lease in node.store.leases()), "two leases that are past")
    assert [task.id for task in node.controller.reconcile(dry_run=True)] == [ours.id]
    assert node.task(ours.id).status is S.STARTING
    assert [(task.id, task.status) for task in node.controller.reconcile()] == [(ours.id, S.LOST)]
    assert node.task(theirs.id).status is S.STARTING
