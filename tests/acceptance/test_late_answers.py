"""`chong submit` at a supervisor that cannot answer yet, because its store is away."""

import signal
import sqlite3
import subprocess
import sys

from node_bench import S, Supervised, wait_until


def test_a_submission_with_a_unique_key_says_that_it_waits_and_what_a_ctrl_c_leaves(node: Supervised):
    """Only the store knows whether the key is free; what was asked for is accepted when it is back, as was said."""
    lock = sqlite3.connect(node.paths.default_store, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    command = [sys.executable, "-m", "chong.cli", "submit", "noop", "--unique", "u"]
    environment = {**node.environment, "CHONG_STATE_DIR": str(node.state), "CHONG_NODE": "node-a"}
    with subprocess.Popen(
        command, env=environment, cwd=node.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stderr is not None
        said = asking.stderr.readline()
        assert said.startswith("chong: no answer yet: with --unique a supervisor waits for its store, "), said
        wait_until(lambda: node.events("store_away"), "the outage")
        asking.send_signal(signal.SIGINT)
        out, err = asking.communicate(timeout=20)
    assert (asking.returncode, out, err.count("\n")) == (130, "", 1), err
    task_id = err.split()[2]
    assert err.startswith(f"chong: task {task_id} stays asked for, and may still be accepted: chong show {task_id} ")
    lock.close()
    assert node.end_of(task_id).status is S.SUCCEEDED
