"""Holds, drains and forgetting over PostgreSQL: asked for on a machine without a node, kept to by real supervisors."""

import os
import signal

from node_bench import Enter, S, Supervised, key_of, wait_until

from chong.store.buckets import BucketPolicy

POLICY = BucketPolicy(64)


def named(node: str, buckets: str) -> tuple[str, ...]:
    return ("--node", node, "--num-buckets", "64", "--owned-buckets", buckets)


ONE, TWO = key_of(0, 31), key_of(32, 63)


def done(place: Supervised, *words: str) -> str:
    answer = place.cli(*words)
    assert answer.code == 0, answer.err
    return answer.out


def marked(place: Supervised, task_id: str) -> bool:
    """Whether `chong ps` says that it is held."""
    lines = done(place, "ps", "--full-id").splitlines()
    return any(line.startswith(task_id) and "(held)" in line for line in lines)


def wait_for_silence(place: Supervised, node: str) -> None:
    wait_until(lambda: [row for row in place.store.nodes() if row.node == node and not row.is_live], "its silence")


def kill_all_of(node: Supervised) -> None:
    """Supervisor and forkserver, so that nothing is left which could tell how a run ended."""
    forkserver = node.forkserver()
    node.kill()
    os.kill(forkserver, signal.SIGKILL)


def test_a_held_bucket_waits_on_its_node_and_the_others_go_on(fleet: Enter, outside: Supervised):
    """In effect when both nodes have said so; the release lets it run."""
    one, two = fleet(*named("one", "0-31")), fleet(*named("two", "32-63"))
    bucket = str(POLICY.bucket_of(ONE))
    told = done(outside, "hold", "--bucket", bucket, "--reason", "rest", "--as", "olga", "--wait")
    assert told.startswith(f"bucket {bucket}: held: rest; by olga since ")
    held = one.submit("noop", key=ONE)
    assert two.end_of(two.submit("noop", key=TWO)).status is S.SUCCEEDED
    assert one.end_of(one.submit("noop", key=key_of(POLICY.bucket_of(ONE) + 1, 31))).status is S.SUCCEEDED
    assert one.task(held).status is S.QUEUED
    assert marked(outside, held)
    assert (
        done(outside, "unhold", "--bucket", bucket, "--wait")
        == f"bucket {bucket}: released, 1 task waiting for a slot\n"
    )
    assert one.end_of(held).status is S.SUCCEEDED


def test_a_drained_node_starts_nothing_and_stays_so_over_a_restart(fleet: Enter, outside: Supervised):
    """What runs goes on, the other node too; undone it works as before."""
    one, two = fleet(*named("one", "0-31"), lease=120), fleet(*named("two", "32-63"))
    running = one.begun("until", key=ONE, path=str(one.root / "open"))
    assert "drained: by olga" in done(outside, "drain", "one", "--as", "olga", "--wait")
    assert "live (drained)" in done(outside, "nodes")
    held = one.submit("noop", key=ONE)
    one.kill()
    one.start(*named("one", "0-31"), lease=120)
    (one.root / "open").touch()
    assert one.end_of(running).status is S.SUCCEEDED
    assert two.end_of(two.submit("noop", key=TWO)).status is S.SUCCEEDED
    assert (one.trail(held), marked(outside, held)) == ([S.QUEUED], True)
    done(outside, "drain", "one", "--undo", "--wait")
    assert one.end_of(held).status is S.SUCCEEDED


def test_forgotten_work_is_lost_and_never_run_when_its_node_comes_back(fleet: Enter, outside: Supervised):
    """Refused while the node is live; its run is left to the lease, and the node is a new one afterwards."""
    one = fleet(*named("one", "0-31"))
    running = one.begun("until", key=ONE, path=str(one.root / "open"))
    done(outside, "drain", "one", "--wait")
    waiting = one.submit("noop", key=ONE)
    assert "one is live" in outside.cli("forget", "one", "--yes").err
    kill_all_of(one)
    wait_for_silence(outside, "one")
    told = done(outside, "forget", "one", "--yes", "--as", "olga", "--reason", "burnt")
    assert told.startswith("node one: 1 waiting task lost, the node is forgotten; 1 run left to the leases")
    assert (outside.task(waiting).status, outside.task(running).status) == (S.LOST, S.RUNNING)
    assert outside.store.nodes() == outside.store.declarations() == []
    one.start(*named("one", "0-31"))
    assert one.end_of(running).status is S.LOST
    assert one.end_of(one.submit("noop", key=ONE)).status is S.SUCCEEDED
    assert {claim.node for claim in outside.store.declarations()} == {"one"}
    assert one.trail(waiting) == [S.QUEUED, S.LOST]
    assert one.moment(waiting, S.LOST).actor == "olga"
    assert not (one.state / "accepted" / f"{waiting}.json").exists()


def test_forgotten_and_pruned_work_is_never_run_when_its_node_comes_back(fleet: Enter, outside: Supervised):
    """Nor at its second return, when the store knows the node again; what it had accepted is kept and told."""
    one = fleet(*named("one", "0-31"))
    done(outside, "drain", "one", "--wait")
    waiting = one.submit("noop", key=ONE)
    kill_all_of(one)
    wait_for_silence(outside, "one")
    done(outside, "forget", "one", "--yes")
    done(outside, "prune", "--older-than", "0", "--yes")
    assert outside.store.get(waiting) is None
    for returned in (1, 2):
        one.start(*named("one", "0-31"))
        assert one.end_of(one.submit("noop", key=ONE)).status is S.SUCCEEDED
        assert [event["task"] for event in one.events("store_went_back")] == [waiting] * returned
        assert all("chong rerun" in event["advice"] for event in one.events("store_went_back"))
        assert outside.store.get(waiting) is None
        assert one.terminate() == 0
    assert one.spooled("submissions")[waiting]["ended_at"] is None


def test_requests_end_when_the_run_of_a_forgotten_node_is_judged(fleet: Enter, outside: Supervised):
    """That is before its node returns, if it ever does."""
    one = fleet(*named("one", "0-31"))
    running = one.begun("until", key=ONE, path=str(one.root / "open"))
    kill_all_of(one)
    wait_for_silence(outside, "one")
    done(outside, "stop", running)
    done(outside, "forget", "one", "--yes")
    assert "was forgotten: chong reconcile judges the run" in done(outside, "stop", running)
    assert [row.finished_at for row in outside.store.commands(running)] == [None, None]
    done(outside, "reconcile")
    assert outside.task(running).status is S.LOST
    assert [row.outcome for row in outside.store.commands(running)] == ["too_late", "too_late"]


def test_what_is_asked_of_a_node_that_is_down_is_done_when_it_is_back(fleet: Enter, outside: Supervised):
    """It stays pending and says so; then it is carried out, or closed where its run is over."""
    one = fleet(*named("one", "0-31"))
    running = one.begun("until", key=ONE, path=str(one.root / "open"))
    done(outside, "drain", "one", "--wait")
    waiting = one.submit("noop", key=ONE)
    kill_all_of(one)
    wait_for_silence(outside, "one")
    told = done(outside, "stop", waiting, "--as", "olga") + done(outside, "pause", running)
    assert told.count("node one has been silent for") == told.count("acts on it when it is back") == 2
    assert [row.finished_at for task in (waiting, running) for row in outside.store.commands(task)] == [None, None]
    assert "not yet taken up" in done(outside, "show", waiting)
    one.start(*named("one", "0-31"))
    stopped = one.end_of(waiting)
    assert (stopped.status, stopped.stop.by) == (S.CANCELLED, "olga")
    assert one.end_of(running).status is S.LOST
    closed = wait_until(lambda: [row for row in outside.store.commands(running) if row.finished_at], "its end")
    assert [row.outcome for row in closed] == ["too_late"]
    assert [row.outcome for row in outside.store.commands(waiting)] == ["done"]


def test_a_resume_that_was_asked_between_two_terms_is_carried_out(fleet: Enter, outside: Supervised):
    """By the one that takes the run over."""
    one = fleet(*named("one", "0-31"), lease=120)
    task = one.begun("hold", key=ONE)
    done(outside, "pause", task, "--wait")
    one.kill()
    assert "resume requested" in done(outside, "resume", task)
    one.start(*named("one", "0-31"), lease=120)
    one.wait_for(task, S.RUNNING)
    assert [row.outcome for row in outside.store.commands(task)] == ["done", "done"]
    done(outside, "stop", task, "--wait")
