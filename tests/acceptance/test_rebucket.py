"""Another number of buckets over PostgreSQL, with real supervisors that end before and begin after it."""

import contextlib
import os
import signal
import subprocess
import sys

import psycopg
from node_bench import Enter, S, Supervised, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.errors import ChongError
from chong.store.query import TaskQuery
from chong.store.specimens import queued, save_of

OLD, NEW = BucketPolicy(64), BucketPolicy(96)
MOVES = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) < 32 and NEW.bucket_of(key) >= 64)


def named(number: int, buckets: str) -> tuple[str, ...]:
    return ("--node", "one", "--num-buckets", str(number), "--owned-buckets", buckets)


def test_waiting_work_is_run_in_its_new_bucket(fleet: Enter, outside: Supervised):
    """The node ends, the number changes, the node begins with it; with the old number it is refused."""
    node = fleet(*named(64, "0-31"))
    assert outside.cli("drain", "one", "--wait").code == 0
    waits = node.submit("noop", key=MOVES)
    refused = outside.cli("rebucket", "96", "--yes")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "expected no live node, got one" in refused.err
    assert node.terminate() == 0
    done = outside.cli("rebucket", "96", "--yes", "--as", "olga")
    assert (done.code, done.out.startswith("64 to 96 buckets: 1 of 1 waiting tasks")) == (0, True), done.err
    assert outside.cli("drain", "one", "--undo").code == 0
    for words in (named(64, "0-31"), ("--check", *named(64, "0-31"))):
        old = node.refuse("--state-dir", str(node.state), *words)
        assert (old.code, old.out) == (2, "")
        assert old.err.endswith("number of buckets: expected 96 as the deployment has recorded, got 64\n")
    node.start(*named(96, "64-95"))
    assert node.end_of(waits).status is S.SUCCEEDED
    assert node.task(waits).bucket == NEW.bucket_of(MOVES)
    assert {claim.bucket for claim in node.store.declarations()} == set(range(64, 96))


def is_frozen_at_rest(node: Supervised, address: str) -> bool:
    """Freeze it; whether no transaction is open then, which would keep its locks. If one is, it goes on."""
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    with psycopg.connect(address) as connection:
        found = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND xact_start IS NOT NULL AND backend_type = 'client backend'"
        ).fetchone()
    if found is not None:
        os.kill(node.supervisor.pid, signal.SIGCONT)
    return found is None


def check_told_in_one_line(node: Supervised) -> None:
    """The supervisor ends as a start that is refused does, and not as by an error of chong."""
    assert node.supervisor.wait(60) == 2
    said = "number of buckets: expected 96 since a rebucket, got 64"
    assert [event["error"] for event in node.events("term_refused")] == [said]
    assert [line for line in node.log().splitlines() if not line.startswith("{")] == [f"chong-supervisor: {said}"]
    assert node.events("main_loop_failed") == []


def test_a_node_that_was_cut_off_ends_when_it_learns_of_it(fleet: Enter, outside: Supervised):
    """It was taken for dead, and counts by the old number; it does not come back until it is given the new one."""
    node = fleet(*named(64, "0-31"))
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    wait_until(lambda: is_frozen_at_rest(node, str(outside.address)), "a moment without a transaction of its own")
    wait_until(lambda: not any(row.is_live for row in outside.store.nodes()), "its silence")
    done = outside.cli("rebucket", "96", "--yes")
    assert done.code == 0, done.err
    for pid in (forkserver, node.supervisor.pid):
        os.kill(pid, signal.SIGCONT)
    check_told_in_one_line(node)
    assert outside.store.declarations() == []
    node.start(*named(96, "0-31"))
    key = next(key for key in map(str, range(999)) if NEW.bucket_of(key) < 32)
    assert node.end_of(node.submit("noop", key=key)).status is S.SUCCEEDED


def test_what_a_cut_off_node_accepts_by_the_old_number_gets_its_bucket_by_the_new_one(
    fleet: Enter, outside: Supervised
):
    """It writes before it looks at what has changed: the store does not take it, and the next term hands it in."""
    node = fleet(*named(64, "0-63"), "--poll-seconds", "3600")
    wait_until(lambda: is_frozen_at_rest(node, str(outside.address)), "a moment without a transaction of its own")
    wait_until(lambda: not any(row.is_live for row in outside.store.nodes()), "its silence")
    done = outside.cli("rebucket", "96", "--yes")
    assert done.code == 0, done.err
    os.kill(node.supervisor.pid, signal.SIGCONT)
    with contextlib.suppress(ChongError, OSError):
        node.submit("noop", key=MOVES)  # its answer is lost with the node
    check_told_in_one_line(node)
    assert outside.store.query(TaskQuery()) == []
    node.start(*named(96, "0-95"))
    (task,) = wait_until(lambda: outside.store.query(TaskQuery()), "what was accepted")
    assert (task.bucket, node.end_of(task.id).status) == (NEW.bucket_of(MOVES), S.SUCCEEDED)


CODE = """
import sys, time
from chong.store.open import open_store
def wait(seen, waiting):
    print("half", flush=True)
    time.sleep(3600)
open_store(sys.argv[1]).rebucket(96, "killed", actor="olga", on_progress=wait)
"""


def test_a_kill_in_the_middle_leaves_the_old_number_with_the_old_buckets(outside: Supervised):
    """The server undoes what was not ended, and a second try does all of it."""
    store = outside.store
    store.record_num_buckets(64)
    store.save_many([save_of(None, task := queued(bucket=OLD.bucket_of(MOVES), bucket_key=MOVES))])
    half = subprocess.Popen(
        [sys.executable, "-c", CODE, str(outside.address)], stdout=subprocess.PIPE, env=outside.environment
    )
    with half:
        assert half.stdout is not None
        assert half.stdout.readline() == b"half\n"
        half.kill()
    stored = store.get(task.id)
    assert stored is not None
    assert (store.deployment().num_buckets, stored.bucket) == (64, OLD.bucket_of(MOVES))
    assert store.rebucketings() == []
    assert outside.cli("rebucket", "96", "--yes").out.startswith("64 to 96 buckets: 1 of 1 waiting")
