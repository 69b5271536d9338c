"""Commands at a supervisor that cannot answer yet, because its store is away, or it stands still."""

import re
import signal
import sqlite3
import subprocess
import sys
from datetime import timedelta

import pytest
from node_bench import S, Supervised, wait_until

from chong.store.specimens import node_record, term_record


def asked(node: Supervised, *words: str) -> subprocess.Popen[str]:
    environment = {**node.environment, "CHONG_STATE_DIR": str(node.state), "CHONG_NODE": "node-a"}
    command = [sys.executable, "-m", "chong.cli", *words]
    return subprocess.Popen(
        command, env=environment, cwd=node.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_submission_with_a_unique_key_says_that_it_waits_and_what_a_ctrl_c_leaves(node: Supervised):
    """Only the store knows whether the key is free; what was asked for is accepted when it is back, as was said."""
    lock = sqlite3.connect(node.paths.default_store, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    with asked(node, "submit", "noop", "--unique", "u") as asking:
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


@pytest.mark.parametrize(
    ("words", "awaited"),
    [
        (["hold", "noop"], "the supervisor of node node-a has been asked"),
        (["reload"], "new runs get the new code when every module has been tried out"),
    ],
)
def test_a_command_says_what_it_waits_for(node: Supervised, words: list[str], awaited: str):
    """Once; when the supervisor goes on, the command does as well. Neither of these needs the store."""
    node.supervisor.send_signal(signal.SIGSTOP)
    with asked(node, *words) as asking:
        assert asking.stderr is not None
        assert asking.stderr.readline() == f"chong: no answer yet: {awaited}\n"
        node.supervisor.send_signal(signal.SIGCONT)
        out, err = asking.communicate(timeout=30)
    assert (asking.returncode, err) == (0, ""), out


def test_who_waits_for_the_end_hears_which_holds_keep_the_task(node: Supervised):
    """Each once, with the command that lifts it; these commands do."""
    node.cli("hold", "noop", "--as", "ann", "--reason", "full")
    node.cli("hold", "--name", "noop", "--as", "olga", "--wait")
    with asked(node, "submit", "noop", "--wait") as asking:
        assert asking.stderr is not None
        own, shared = asking.stderr.readline(), asking.stderr.readline()
        assert re.fullmatch(
            r"chong: no answer yet: task \w{8} is held: full; by ann since \S+ \S+; "
            r"when its reason is gone, on node-a: chong unhold noop\n",
            own,
        )
        assert re.fullmatch(
            r"chong: no answer yet: task \w{8} is held: by olga since \S+ \S+, of the name on every node; "
            r"when its reason is gone, chong unhold --name noop\n",
            shared,
        )
        for words in (own, shared):
            assert node.cli(*words.rpartition("chong ")[2].split()).code == 0
        out, err = asking.communicate(timeout=30)
    assert (asking.returncode, err) == (0, ""), out


def test_a_hold_says_which_nodes_it_waits_for(node: Supervised):
    """Of those that live, the ones that have not said that they keep to it."""
    term = term_record("silent.1", node="silent")
    node.store.register_term(term, node_record(term.term, node="silent", ttl=timedelta(minutes=5)))
    with asked(node, "hold", "--name", "noop", "--wait") as asking:
        assert asking.stderr is not None
        said = asking.stderr.readline()
        assert said in {f"chong: no answer yet: waiting for {who}\n" for who in ("silent", "node-a, silent")}
        node.store.acknowledge_holds(term.term, node.store.holds().revision)
        out, err = asking.communicate(timeout=30)
    assert (asking.returncode, err) == (0, ""), out
