"""An attempt that was stored and never forked: no user code ran, so it is not lost, and it runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from node_bench import S, Supervised

from chong.store.model import LeaseGrant, TaskSnapshot, Transition
from chong.supervisor.accepted import Accepted
from chong.supervisor.submission import Submission


def leave_claimed(node: Supervised) -> str:
    """What a supervisor leaves that was killed between storing an attempt and asking for its worker."""
    term = node.store.terms("node-a")[0].term
    submission = Submission(name="noop")
    Accepted(node.paths.accepted).keep(submission)
    now = datetime.now(UTC)
    queued = TaskSnapshot(
        id=submission.id, name="noop", status=S.QUEUED, version=1, node="node-a",
        created_at=now, status_changed_at=now, lease_owner=term,
    )  # fmt: skip
    starting = replace(queued, status=S.STARTING, version=2, attempt=1)
    moves = [
        Transition(
            task_id=submission.id, version=version, source=source, target=target,
            at=now, actor=term, event_id=f"{submission.id}.{version}",
        )
        for version, source, target in [(1, None, S.QUEUED), (2, S.QUEUED, S.STARTING)]
    ]  # fmt: skip
    node.store.save(queued, moves[:1], expect_version=0)
    node.store.save(starting, moves[1:], expect_version=1, lease=LeaseGrant(term, timedelta(seconds=30)))
    return submission.id


@pytest.mark.parametrize("beside", ["another run", "nothing"])
def test_a_claim_without_a_fork_runs_in_the_next_term(place: Supervised, beside):
    """Whether the old forkserver still waits for its runs, or had none and has left in order."""
    node = place.start(lease=30)
    if beside == "another run":
        node.begun("until", path=str(node.root / "open"))
    node.kill()
    task_id = leave_claimed(node)
    (node.root / "open").touch()
    task = node.start(lease=30).end_of(task_id)
    assert (task.status, task.attempt, task.unstarted) == (S.SUCCEEDED, 2, 1)
