"""Who may start, and when: limits, priority, turns, ownership, unique keys, idempotence."""

import threading
import time

import pytest
from node_bench import InProcess, S, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.errors import ConfigurationError, Refused, UniqueKeyTaken
from chong.supervisor import intake
from chong.supervisor.control_client import submit_over
from chong.supervisor.controller import Controller
from chong.supervisor.submission import Submission

POLICY = BucketPolicy(64)


def keys_of(bucket: int, count: int = 1) -> list[str]:
    found = (key for key in map(str, range(100_000)) if POLICY.bucket_of(key) == bucket)
    return [next(found) for _ in range(count)]


def fill(node: InProcess) -> str:
    return node.begun("until", path=str(node.root / "open"))


def until_begun(node: InProcess, count: int) -> None:
    """So many are in their own code at once; whether it is more is for the end to tell."""
    wait_until(lambda: len(node.journal("begin")) >= count, f"{count} runs")


def release(node: InProcess) -> None:
    (node.root / "open").touch()


# --- limits ------------------------------------------------------------------------------------------------


def test_the_nodes_limit_holds(bench: InProcess):
    """By the tasks' own account."""
    node = bench.start(max_parallel=3)
    ids = node.submit_all("until", 12, path=str(node.root / "open"))
    until_begun(node, 3)
    release(node)
    node.ends_of(ids)
    assert node.most_at_once() == 3


def test_a_buckets_limit_holds_beside_free_slots(bench: InProcess):
    """Two buckets with two runs each, although the node has room for eight."""
    node = bench.start(max_parallel=8, max_parallel_per_bucket=2)
    (first,), (second,) = keys_of(3), keys_of(4)
    ids = [node.submit("until", key, path=str(node.root / "open")) for key in [first] * 5 + [second] * 5]
    until_begun(node, 4)
    release(node)
    node.ends_of(ids)
    assert (node.most_at_once([first]), node.most_at_once([second])) == (2, 2)
    assert node.most_at_once() == 4


def test_a_definitions_limit_holds_and_blocks_nobody(bench: InProcess):
    """`max_parallel=2` of one task; another one of the same bucket passes it."""
    node = bench.start(max_parallel=8)
    limited = node.submit_all("until.two", 6, path=str(node.root / "open"))
    until_begun(node, 2)
    node.run("noop")
    release(node)
    node.ends_of(limited)
    begins = {entry["id"] for entry in node.journal("end")}
    assert begins == set(limited)
    assert node.most_at_once(limited) == 2


def test_a_limit_per_key_holds_and_blocks_nobody(bench: InProcess):
    """`max_parallel_per_key=1`: one customer's runs come one by one, beside another's in the same bucket."""
    node = bench.start(max_parallel=8)
    first, second = keys_of(3, 2)
    ids = [node.submit("until.each", key, path=str(node.root / "open")) for key in [first] * 4 + [second] * 4]
    until_begun(node, 2)
    release(node)
    node.ends_of(ids)
    assert (node.most_at_once([first]), node.most_at_once([second]), node.most_at_once()) == (1, 1, 2)


def test_priority_decides_within_a_bucket(bench: InProcess):
    """The urgent one was submitted last and starts first."""
    node = bench.start(max_parallel=1)
    fill(node)
    ids = [*node.submit_all("noop", 3), node.submit("noop.urgent")]
    release(node)
    node.ends_of(ids)
    assert [entry["id"] for entry in node.journal("begin")[1:]] == [ids[3], *ids[:3]]


def test_buckets_take_turns(bench: InProcess):
    """One tenant's backlog does not hold up another's single task."""
    node = bench.start(max_parallel=1)
    fill(node)
    (many,), (one,) = keys_of(5), keys_of(6)
    backlog = [node.submit("noop", many) for _ in range(10)]
    single = node.submit("noop", one)
    release(node)
    node.ends_of([*backlog, single])
    begun = [entry["id"] for entry in node.journal("begin")[1:]]
    assert begun.index(single) <= 1


def test_a_full_queue_refuses(bench: InProcess, monkeypatch: pytest.MonkeyPatch):
    """With the bound in the message; the real one is 10,000."""
    assert intake.QUEUE_LIMIT == 10_000
    monkeypatch.setattr(intake, "QUEUE_LIMIT", 5)
    node = bench.start(max_parallel=1)
    fill(node)
    waiting = node.submit_all("noop", 5)
    with pytest.raises(Refused, match="queue: expected fewer than 5 waiting tasks"):
        node.submit("noop")
    release(node)
    assert {task.status for task in node.ends_of(waiting)} == {S.SUCCEEDED}
    assert node.run("noop").status is S.SUCCEEDED


# --- ownership ---------------------------------------------------------------------------------------------


def test_a_partition_takes_its_own_buckets_only(bench: InProcess):
    """A foreign key is refused with its bucket and those that are ours."""
    node = bench.start(owned_buckets=range(4))
    (ours,), (foreign,) = keys_of(2), keys_of(9)
    task = node.run("noop", ours)
    assert (task.bucket, task.bucket_key) == (2, ours)
    with pytest.raises(Refused, match=r"falls into bucket 9: expected one of node 'node-a', 0-3"):
        node.submit("noop", foreign)


def test_a_partition_takes_no_work_without_a_key(bench: InProcess):
    """Nobody else could tell whose it is."""
    node = bench.start(owned_buckets=range(4))
    assert not node.controller.owns_all_buckets
    with pytest.raises(Refused, match="expects a key, got none"):
        node.submit("noop")


@pytest.mark.parametrize("owned", [None, range(64)])
def test_a_full_cover_needs_no_key(bench: InProcess, owned):
    """Named or not, it makes no partition."""
    node = bench.start(owned_buckets=owned)
    assert node.controller.owns_all_buckets
    assert node.run("noop").bucket is None


@pytest.mark.parametrize("bad", [[64], [-1], [0, 1, 9999]])
def test_a_bucket_out_of_range_fails_before_anything(bench: InProcess, bad):
    """No thread, no file, no process."""
    store = bench.store
    before, files = threading.enumerate(), sorted(bench.root.rglob("*"))
    with pytest.raises(ConfigurationError, match=r"expected .*0.*63"):
        Controller(store=store, node="node-a", owned_buckets=bad, num_buckets=64, state_dir=bench.state)
    assert threading.enumerate() == before
    assert sorted(bench.root.rglob("*")) == files
    assert store.terms("node-a") == []


def test_another_number_of_buckets_than_the_stores_is_refused(bench: InProcess):
    """And nothing keeps running."""
    bench.store.record_num_buckets(64)
    with pytest.raises(ConfigurationError, match=r"expected 64 .* got 32"):
        bench.start(num_buckets=32)
    assert bench.processes() == {}


def test_the_stores_number_of_buckets_is_adopted(bench: InProcess):
    """Where none is named."""
    bench.store.record_num_buckets(8)
    node = bench.start(owned_buckets=range(8))
    assert node.controller.num_buckets == 8
    assert node.controller.owns_all_buckets


def test_a_second_node_on_one_state_directory_is_refused(node: InProcess):
    """One line, with the process that has it."""
    with pytest.raises(ConfigurationError, match=r"expected no other supervisor on .* one runs as process") as refusal:
        Controller(store=node.store, node="node-a", state_dir=node.state)
    assert "\n" not in str(refusal.value)
    assert node.run("noop").status is S.SUCCEEDED


# --- acceptance --------------------------------------------------------------------------------------------


def test_an_unknown_task_is_refused_with_the_nearest_name(node: InProcess):
    """Nothing is stored."""
    with pytest.raises(Refused, match="unknown task 'noob', did you mean 'noop'"):
        node.submit("noob")
    assert node.spooled("submissions") == {}


def test_a_unique_key_is_taken_until_its_task_ends(node: InProcess):
    """The second one is refused with the holder's id; afterwards the key is free."""
    holder = node.submit("until", path=str(node.root / "open"), unique_key="nightly")
    with pytest.raises(UniqueKeyTaken, match=holder):
        node.submit("noop", unique_key="nightly")
    release(node)
    node.end_of(holder)
    assert node.end_of(node.submit("noop", unique_key="nightly")).status is S.SUCCEEDED
    assert len(node.journal("begin")) == 2


def send(node: InProcess, submission: Submission) -> dict:
    return submit_over(node.paths.control, submission)


def test_a_submission_sent_twice_is_one_task(node: InProcess):
    """While it runs, and after it has ended: it never runs again."""
    submission = Submission(name="span", params={"seconds": 0.3})
    assert send(node, submission)["id"] == send(node, submission)["id"] == submission.id
    node.end_of(submission.id)
    wait_until(lambda: node.spooled("submissions")[submission.id]["ended_at"], "its end in the spool")
    assert send(node, submission)["status"] == "succeeded"
    assert node.run("noop").status is S.SUCCEEDED
    assert [entry["id"] for entry in node.journal("begin")].count(submission.id) == 1
    assert node.task(submission.id).attempt == 1
    assert node.controller.desynced_tasks == {}


def test_a_unique_submission_sent_twice_is_one_task(node: InProcess):
    """A key does not stand in its own way."""
    submission = Submission(name="span", params={"seconds": 0.2}, unique_key="once")
    assert send(node, submission)["id"] == send(node, submission)["id"]
    assert node.end_of(submission.id).status is S.SUCCEEDED


def test_parameters_never_reach_the_store(node: InProcess):
    """Neither its file nor its log holds them; the node's own spool keeps them, for a rerun."""
    secret = "tell-nobody-" + "x" * 20
    task = node.run("echo", text=secret)
    assert task.outcome["length"] == len(secret)
    node.controller.close()
    node.store.close()
    written = {path.name for path in node.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()}
    assert written == {node.paths.spool.name}


def test_what_came_early_waits_for_the_catalogue(bench: InProcess):
    """A submission in the first instant of a node is neither lost nor refused."""
    node = bench.start()
    began = time.monotonic()
    ids = [node.submit("noop") for _ in range(3)]
    assert {task.status for task in node.ends_of(ids)} == {S.SUCCEEDED}
    assert time.monotonic() - began < 20


def test_a_closed_node_takes_nothing(node: InProcess):
    """Refused, not left hanging."""
    node.controller.close()
    with pytest.raises(Refused):
        node.submit("noop")
