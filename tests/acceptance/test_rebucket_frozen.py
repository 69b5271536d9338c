"""`chong rebucket` on a SQLite file, frozen in the middle of its transaction: nothing is half done, whatever comes."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from node_bench import S, Supervised, wait_until
from waiting import state_of

from chong.store.buckets import BucketPolicy

OLD, NEW = BucketPolicy(64), BucketPolicy(96)
KEY = next(key for key in map(str, range(1000)) if OLD.bucket_of(key) != NEW.bucket_of(key))
BEFORE, AFTER = ("--num-buckets", "64"), ("--num-buckets", "96")
CODE = """
import os, signal, sys
from importlib import import_module
from chong.cli.main import run
def freeze(text):
    if text:
        os.kill(os.getpid(), signal.SIGSTOP)
import_module("chong.cli.rebucket").show_progress = freeze
sys.exit(run(["rebucket", "96", "--yes", "--as", "olga"]))
"""


@pytest.fixture
def waiting(place: Supervised) -> str:
    """A task of a node that has ended, and was drained before: it waits for the node."""
    node = place.start(*BEFORE)
    assert node.cli("drain", "node-a", "--wait").code == 0
    task_id = node.submit("noop", key=KEY)
    assert node.terminate() == 0
    return task_id


@contextmanager
def frozen(place: Supervised) -> Iterator[subprocess.Popen[str]]:
    """The command when it has moved the task, and has not ended its transaction."""
    environment = {**place.environment, "CHONG_STATE_DIR": str(place.state)}
    words = [sys.executable, "-c", CODE]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, env=environment, cwd=place.root, text=True) as half:
        try:
            wait_until(lambda: state_of(half.pid) == "T", "its freeze")
            yield half
        finally:
            half.kill()


def check_kept_out(place: Supervised) -> None:
    """Who looks sees what was; who writes is told in one line what is in the way, and a node waits for it."""
    assert place.cli("rebucket").out == "64 buckets\n"
    other = place.cli("rebucket", "96", "--yes")
    assert (other.code, other.out, other.err.count("\n")) == (3, "", 1), other.err
    assert "database is locked" in other.err
    wait_until(lambda: place.events("waiting_for_store"), "its word that it waits")
    assert "database is locked" in place.events("waiting_for_store")[0]["error"]


def numbers(place: Supervised, task_id: str) -> tuple[int | None, int | None, list[int]]:
    """Of the deployment, of the task's bucket, and of each change."""
    changes = [change.after for change in place.store.rebucketings()]
    return place.store.deployment().num_buckets, place.task(task_id).bucket, changes


def test_a_rebucket_that_was_frozen_goes_on_to_its_end(place: Supervised, waiting: str):
    """A node that wanted to start meanwhile, by the old number, ends with one line."""
    with frozen(place) as half:
        place.start(*BEFORE, wait=False)
        check_kept_out(place)
        assert numbers(place, waiting) == (64, OLD.bucket_of(KEY), [])
        half.send_signal(signal.SIGCONT)
        out, err = half.communicate(timeout=60)
    assert (half.returncode, err) == (0, "")
    assert out.startswith("64 to 96 buckets: 1 of 1 waiting")
    assert numbers(place, waiting) == (96, NEW.bucket_of(KEY), [96])
    assert place.supervisor.wait(60) == 2
    [said] = [line for line in place.log().splitlines() if not line.startswith("{")]
    # It may learn of it at its first look, or when it registers.
    assert re.search("number of buckets: expected 96 (since a rebucket|as the deployment has recorded), got 64$", said)
    assert place.cli("drain", "node-a", "--undo").code == 0
    assert place.start(*AFTER).end_of(waiting).status is S.SUCCEEDED


def test_a_rebucket_that_was_frozen_and_killed_has_changed_nothing(place: Supervised, waiting: str):
    """The node that wanted to start meanwhile goes on by the old number, and a second try does all of it."""
    with frozen(place) as half:
        place.start(*BEFORE, wait=False)
        check_kept_out(place)
        half.kill()
    place.wait_until_serving()
    assert numbers(place, waiting) == (64, OLD.bucket_of(KEY), [])
    assert place.terminate() == 0
    done = place.cli("rebucket", "96", "--yes")
    assert (done.code, done.out.startswith("64 to 96 buckets: 1 of 1 waiting")) == (0, True), done.err
    assert numbers(place, waiting) == (96, NEW.bucket_of(KEY), [96])
    assert place.cli("drain", "node-a", "--undo").code == 0
    assert place.start(*AFTER).end_of(waiting).status is S.SUCCEEDED
