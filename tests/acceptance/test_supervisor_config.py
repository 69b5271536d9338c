"""Real supervisors that are told everything by one chong.toml, and `--check`, which starts nothing."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from node_bench import LIMIT, Answer, S, Supervised, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.specimens import node_record, term_record
from chong.supervisor.files import write_json

POLICY = BucketPolicy(64)
KEYS = {bucket: key for key in map(str, range(2000)) for bucket in [POLICY.bucket_of(key)]}
"""A key for each bucket."""


def write_fleet(place: Supervised) -> Path:
    """Two nodes on this one machine, each with a state directory of its own, and one store."""
    place.state.mkdir(mode=0o700)
    file = place.root / "chong.toml"
    file.write_text(f"""\
        db = "{place.paths.default_store}"
        num_buckets = 64
        tasks = ["node_tasks"]
        lease_seconds = "3s"
        poll_seconds = "50ms"
        drain = 0
        log_format = "json"

        [nodes.node-a]
        owned_buckets = "0-31"
        state_dir = "{place.state}"

        [nodes.node-b]
        owned_buckets = "32-63"
        max_parallel = 1
        state_dir = "{place.root}/b"
        """)
    return file


def chong(place: Supervised, *words: str) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "chong.cli", *words],
        env=place.environment, cwd=place.root, capture_output=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_one_file_serves_every_node(place: Supervised):
    """`--node` is all that two supervisors are told, and each has its own buckets, directory and limits."""
    place.environment["CHONG_CONFIG"] = str(write_fleet(place))
    with (place.root / "supervisor.log").open("ab") as log:
        for node in ("node-a", "node-b"):
            command = [sys.executable, "-m", "chong.supervisor.main", "--node", node]
            started = subprocess.Popen(command, stdout=log, stderr=log, cwd=place.root, env=place.environment)
            place.supervisors.append(started)
    wait_until(lambda: len(place.events("accepting")) == len(place.events("generation_ready")) == 2, "two nodes")
    answer = chong(place, "--node", "node-b", "submit", "until", "--key", KEYS[40], "-p", f"path={place.root}/open")
    assert answer.code == 0, answer
    running = answer.out.strip()
    waiting = chong(place, "--node", "node-b", "submit", "noop", "--key", KEYS[41]).out.strip()
    place.wait_for(running, S.RUNNING)
    refused = chong(place, "--node", "node-a", "submit", "noop", "--key", KEYS[40])
    assert (refused.code, "expected one of node 'node-a', 0-31" in refused.err) == (1, True)
    taken = chong(place, "--node", "node-a", "submit", "noop", "--key", KEYS[1]).out.strip()
    assert place.end_of(taken).status is S.SUCCEEDED
    assert place.task(waiting).status is S.QUEUED
    (place.root / "open").touch()
    assert [place.end_of(task_id).node for task_id in (running, waiting, taken)] == ["node-b", "node-b", "node-a"]
    rows = chong(place, "--node", "node-a", "buckets", "--json").json
    assert {bool(row["mine"]) for row in rows if row["bucket"] < 32} == {True}
    for supervisor in place.supervisors:
        supervisor.terminate()
    assert [supervisor.wait(LIMIT) for supervisor in place.supervisors] == [0, 0]


def test_a_node_that_the_file_does_not_know_is_refused(place: Supervised):
    """It would own every bucket. Nothing is started or made."""
    file = write_fleet(place)
    answer = place.refuse("--config", str(file), "--node", "node_a")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"chong-supervisor: {file}: expected one of the nodes node-a, node-b, got 'node_a' from --node, "
        "did you mean node-a?\n"
    )
    assert list(place.state.iterdir()) == []
    assert place.processes() == {}


BAD = {
    "missing": lambda file: file.unlink(),
    "directory": lambda file: (file.unlink(), file.mkdir()),
    "fifo": lambda file: (file.unlink(), os.mkfifo(file)),
    "loop": lambda file: (file.unlink(), file.symlink_to(file)),
    "huge": lambda file: file.write_bytes(b"#" * 2_000_000),
    "UTF-16": lambda file: file.write_text("drain = 1", encoding="utf-16"),
    "broken": lambda file: file.write_text("drain = ["),
    "deep": lambda file: file.write_text("drain = " + "[" * 100_000),
    "unknown key": lambda file: file.write_text("drian = 1"),
    "no time": lambda file: file.write_text("drain = nan"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_in_one_line(place: Supervised, what):
    """Exit code 2 at once, nothing was started or made."""
    file = write_fleet(place)
    BAD[what](file)
    answer = place.refuse("--config", str(file), "--node", "node-a", "--state-dir", str(place.state))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert answer.err.startswith(f"chong-supervisor: {file}")
    assert list(place.state.iterdir()) == []


class TestCheck:
    def check(self, place: Supervised, *words: str) -> Answer:
        return place.refuse("--check", "--state-dir", str(place.state), "--node", "node-a", *words)

    def test_a_node_that_could_start_is_told_so(self, place: Supervised):
        """One line; neither directory nor store is made."""
        answer = self.check(place, "--owned-buckets", "0-15")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == (
            f"ok: node node-a, 0-15 of 64 buckets, state directory {place.state}, store to be made; "
            "task modules are not tried\n"
        )
        assert not place.state.exists()

    def test_beside_a_running_node_it_disturbs_nothing(self, place: Supervised):
        """As before a restart; it compares with what the store has recorded."""
        node = place.start()
        assert ", store found; " in self.check(node).out
        answer = self.check(node, "--num-buckets", "8")
        assert answer.code == 2
        assert answer.err.endswith("number of buckets: expected 64 as the deployment has recorded, got 8\n")
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED

    def test_a_directory_of_another_node_is_refused(self, place: Supervised):
        """As a start would be."""
        place.state.mkdir(mode=0o700)
        write_json(place.paths.identity, {"node": "node-b", "node_id": "1"})
        answer = self.check(place)
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "belongs to node 'node-b'" in answer.err

    def test_a_place_where_no_directory_can_be_is_refused(self, place: Supervised):
        """Below a file, or where one lies."""
        (place.root / "file").write_text("")
        for path in ("file", "file/state"):
            answer = place.refuse("--check", "--state-dir", str(place.root / path))
            assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
            assert "it is a file" in answer.err

    def test_a_store_where_none_can_be_is_refused(self, place: Supervised):
        """A directory that is not there, a file that is no store."""
        (place.root / "notes").write_text("hello" * 100)
        for path, said in (("none/chong.db", "that can be written to"), ("notes", "expected a store of chong")):
            answer = self.check(place, "--db", str(place.root / path))
            assert (answer.code, answer.err.count("\n")) == (2, 1)
            assert said in answer.err

    def test_a_row_that_a_start_would_bear_is_told_and_no_more(self, place: Supervised):
        """Of another node, for instance, that is long gone."""
        node = place.start()
        node.store.register_term(term_record("gone.1", "gone"), node_record("gone.1", "gone"))
        with closing(sqlite3.connect(place.paths.default_store, isolation_level=None)) as store:
            store.execute("UPDATE nodes SET limits = '[]' WHERE node = 'gone'")
        answer = self.check(node)
        assert (answer.code, answer.err) == (0, "")
        assert "; store: nodes gone, column limits: expected " in answer.out

    def test_another_living_node_of_its_name_is_refused(self, place: Supervised):
        """As a start would be, with another state directory on the same store; nothing is made there."""
        place.start()
        other = place.root / "other"
        answer = place.refuse(
            "--check", "--state-dir", str(other), "--node", "node-a", "--db", str(place.paths.default_store)
        )
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert "node 'node-a': expected a name of its own, another state directory uses it" in answer.err
        assert not other.exists()

    def test_buckets_that_a_living_node_declares_too_are_told(self, place: Supervised):
        """A start would only warn, so it is still fine."""
        place.start("--owned-buckets", "0-31")
        answer = place.refuse(
            "--check", "--state-dir", str(place.root / "b"), "--node", "node-b", "--owned-buckets", "30-40",
            "--db", str(place.paths.default_store),
        )  # fmt: skip
        assert (answer.code, answer.err) == (0, "")
        assert "; node node-a is live and declares buckets 30-31, too; " in answer.out

    def test_a_directory_within_its_own_that_is_a_file_is_refused(self, place: Supervised):
        """Each of those that a start makes."""
        place.state.mkdir(mode=0o700)
        for directory in (path for path in place.paths.own_directories() if path != place.state):
            directory.write_text("")
            answer = self.check(place)
            assert (answer.code, answer.err) == (
                2,
                f"chong-supervisor: {directory}: expected a directory, it is a file\n",
            )
            directory.unlink()

    def test_holds_that_cannot_be_read_are_told(self, place: Supervised):
        """A start would hold everything; the file stays as it is."""
        place.state.mkdir(mode=0o700)
        place.paths.holds.write_text("{")
        answer = self.check(place)
        assert (answer.code, answer.err) == (0, "")
        assert f"; {place.paths.holds} cannot be read, so every task will be held; " in answer.out
        assert place.paths.holds.read_text() == "{"


def test_a_schedule_without_keys_ends_the_start_of_a_partition(outside: Supervised):
    """Nobody could tell whose it is: exit 2, and one line that names it."""
    outside.start("--owned-buckets", "0-15", "--tasks", "node_schedules", wait=False)
    assert outside.supervisor.wait(LIMIT) == 2
    told = [line for line in outside.log().splitlines() if line.startswith("chong-supervisor: ")]
    assert len(told) == 1, outside.log()
    assert "task 'tick': every: expected keys, because this node owns some of the buckets only; got none" in told[0]
