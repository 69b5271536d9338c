"""An attempt that was stored and never forked: no user code ran, so it is not lost, and it runs."""

import contextlib
import json
import os
import signal
import sqlite3
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from node_bench import S, Supervised, wait_until

from chong.store.model import LeaseGrant, TaskSnapshot, Transition
from chong.supervisor.claim import claim_id
from chong.supervisor.submission import Submission, to_json

KILLER = Path(__file__).with_name("killed_in_store.py")


def leave_claimed(node: Supervised, generation: int) -> str:
    """What a supervisor leaves that was killed between storing an attempt and asking for its worker."""
    term = node.store.terms("node-a")[0].term
    submission = Submission(name="noop")
    content = json.dumps(to_json(submission))
    with contextlib.closing(sqlite3.connect(node.paths.spool, timeout=20, isolation_level=None)) as spool:
        spool.execute("INSERT INTO submissions (id, content, accepted_at) VALUES (?, ?, 1)", (submission.id, content))
    now = datetime.now(UTC)
    queued = TaskSnapshot(
        id=submission.id, name="noop", status=S.QUEUED, version=1, node="node-a",
        created_at=now, status_changed_at=now, lease_owner=term,
    )  # fmt: skip
    starting = replace(queued, status=S.STARTING, version=2, attempt=1)
    moves = [
        Transition(
            task_id=submission.id, version=version, source=source, target=target,
            at=now, actor=term, event_id=event_id,
        )
        for version, source, target, event_id in [
            (1, None, S.QUEUED, f"{submission.id}.accepted"),
            (2, S.QUEUED, S.STARTING, claim_id(starting.run, generation)),
        ]
    ]  # fmt: skip
    node.store.save(queued, moves[:1], expect_version=0)
    node.store.save(starting, moves[1:], expect_version=1, lease=LeaseGrant(term, timedelta(seconds=30)))
    return submission.id


@pytest.mark.parametrize("beside", ["another run", "nothing", "a dead forkserver"])
def test_a_claim_without_a_fork_runs_in_the_next_term(place: Supervised, beside):
    """Whatever its forkserver has beside it, and whatever became of the one before."""
    node = place.start(lease=30)
    if beside == "another run":
        node.begun("until", path=str(node.root / "open"))
    if beside == "a dead forkserver":
        os.kill(node.forkserver(), signal.SIGKILL)
        wait_until(lambda: len(node.events("generation_ready")) == 2, "the next one")
    # The end of a run says that the forkserver has heard which term it serves; a kill before that leaves it without.
    node.end_of(node.submit("noop"))
    node.kill()
    task_id = leave_claimed(node, 2 if beside == "a dead forkserver" else 1)
    (node.root / "open").touch()
    task = node.start(lease=30).end_of(task_id)
    assert (task.status, task.attempt, task.unstarted) == (S.SUCCEEDED, 2, 1)


def test_a_death_before_that_is_stored_costs_nothing(place: Supervised):
    """The one forkserver that vouches for it stays until the store has its word."""
    node = place.start(lease=30)
    node.end_of(node.submit("noop"))
    node.kill()
    task_id = leave_claimed(node, 1)
    node.start(lease=30, wait=False, within=(sys.executable, str(KILLER), "save_many", "1", "before"))
    assert node.supervisor.wait(60) == -signal.SIGKILL
    task = node.start(lease=30).end_of(task_id)
    assert (task.status, task.attempt, task.unstarted) == (S.SUCCEEDED, 2, 1)


def test_a_claim_for_a_dead_forkserver_is_lost(place: Supervised):
    """The next one of its term answers, and cannot know."""
    node = place.start(lease=30)
    os.kill(node.forkserver(), signal.SIGKILL)
    wait_until(lambda: len(node.events("generation_ready")) == 2, "the next one")
    node.kill()
    task_id = leave_claimed(node, 1)
    assert node.start(lease=30).end_of(task_id).status is S.LOST
