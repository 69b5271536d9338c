"""How a supervisor is told to end, and how it refuses to begin."""

import contextlib
import os
import shutil
import signal
import time

import pytest
from needs import as_root
from node_bench import S, Supervised, wait_until


def release(node: Supervised) -> None:
    (node.root / "open").touch()


def begin_until(node: Supervised) -> str:
    return node.begun("until", path=str(node.root / "open"))


def test_a_drain_lets_running_tasks_finish(place: Supervised):
    """It takes nothing new; what waits stays queued and runs in the next term."""
    node = place.start("--drain", "30", "--max-parallel", "1")
    running = begin_until(node)
    waiting = node.submit("noop")
    node.supervisor.terminate()
    wait_until(lambda: node.events("draining"), "the drain")
    refused = node.cli("submit", "noop")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "chong: the node is going down and takes no new work\n"
    release(node)
    assert node.supervisor.wait(20) == 0
    assert node.task(running).status is S.SUCCEEDED
    assert node.task(waiting).status is S.QUEUED
    node.check_gone()
    node.start()
    assert node.end_of(waiting).status is S.SUCCEEDED


def test_after_the_drain_what_still_runs_is_stopped(node: Supervised):
    """With no time to drain: cooperative and deaf ones alike, and nothing is left."""
    ids = [node.begun("hold"), node.begun("deaf")]
    assert node.terminate() == 0
    tasks = [node.task(task_id) for task_id in ids]
    assert [(task.status, task.forced) for task in tasks] == [(S.STOPPED, False), (S.STOPPED, True)]
    assert {task.stop.reason for task in tasks} == {"the node is going down"}
    node.check_gone()


def test_a_second_sigterm_shortens_the_drain(place: Supervised):
    """A minute was allowed; it ends at once."""
    node = place.start("--drain", "60")
    task_id = node.begun("hold")
    node.supervisor.terminate()
    wait_until(lambda: node.events("draining"), "the drain")
    asked = time.monotonic()
    assert node.terminate() == 0
    assert time.monotonic() - asked < 10
    assert node.task(task_id).status is S.STOPPED


@pytest.mark.parametrize("step", ["begun", "containment", "generation_ready", "accepting"])
def test_sigterm_while_starting_up_leaves_nothing(place: Supervised, step):
    """Whenever it comes: it ends as asked or by the signal, and the next one starts."""
    node = place.start(wait=False)
    node.wait_until_said(step)
    assert node.terminate() in {0, -signal.SIGTERM}
    node.check_gone()
    node.start()
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_sigint_ends_like_sigterm(node: Supervised):
    """Ctrl-C in a terminal."""
    task_id = node.begun("hold")
    node.supervisor.send_signal(signal.SIGINT)
    assert node.supervisor.wait(20) == 0
    assert node.task(task_id).status is S.STOPPED


def test_a_log_that_nobody_reads_does_not_stop_it(place: Supervised):
    """The pipe behind its output is full after the first 64 KiB: it works on, and it ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    node = place.start(output=writer, wait=False)
    os.close(writer)
    wait_until(node.paths.control.exists, "its control socket")
    ids = [node.submit("noop") for _ in range(100)]
    assert {task.status for task in node.ends_of(ids)} == {S.SUCCEEDED}
    assert node.terminate() == 0
    os.close(reader)


# --- refusals ------------------------------------------------------------------------------------------------

BAD = {
    "bucket syntax": (["--owned-buckets", "1-"], "expected"),
    "bucket words": (["--owned-buckets", "all"], "expected"),
    "buckets backwards": (["--owned-buckets", "5-1"], "did you mean 1-5"),
    "bucket out of range": (["--owned-buckets", "0-64", "--num-buckets", "64"], "63"),
    "bucket out of the default range": (["--owned-buckets", "9999"], "63"),
    "no buckets": (["--num-buckets", "0"], "expected"),
    "number of buckets": (["--num-buckets", "many"], "many"),
    "unknown option": (["--own-buckets", "1"], "--own"),
    "stray word": (["please"], "please"),
    "duration": (["--lease-seconds", "soon"], "soon"),
    "negative duration": (["--drain", "-1"], "-1"),
    "no lease": (["--lease-seconds", "0"], "more than 0"),
    "no poll": (["--poll-seconds", "0"], "more than 0"),
    "log format": (["--log-format", "xml"], "xml"),
    "no runs": (["--max-parallel", "0"], "1 to 100000"),
    "no runs in a bucket": (["--max-parallel-per-bucket", "0"], "1 to 100000"),
    "store scheme": (["--db", "mysql://somewhere"], "mysql"),
    "node with a slash": (["--node", "a/b"], "slash"),
    "node with a control character": (["--node", "a\x1bb"], "control"),
    "empty node": (["--node", "x" * 101], "100"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_command_line_is_refused_in_one_line(place: Supervised, what):
    """Exit code 2; no node was pinned, nothing was started."""
    words, said = BAD[what]
    answer = place.refuse("--state-dir", str(place.state), *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("chong-supervisor: ")
    assert answer.err.count("\n") == 1
    assert said in answer.err
    assert not place.paths.identity.exists()
    assert place.processes() == {}


@pytest.mark.parametrize("words", [(), ("--check",)])
@pytest.mark.parametrize(
    "name",
    [
        "supervisor.lock",
        "node.json",
        "holds.json",
        "generation-1.lock",
        "run/control.sock",
        "run/generation-1.sock",
        "run/trials.json",
    ],
)
def test_a_directory_in_the_place_of_a_file_is_refused_in_one_line(place: Supervised, name, words):
    """Nobody else would say which one: a node must not hold everything, or fail at each start, for a reason unknown."""
    (place.state / name).mkdir(mode=0o700, parents=True)
    place.state.chmod(0o700)
    assert f"{place.state / name}: expected a file, got a directory" in refused(place, *words)


def refused(place: Supervised, *words: str) -> str:
    answer = place.refuse("--state-dir", str(place.state), *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer
    return answer.err


def test_a_state_directory_that_is_a_file_is_refused(place: Supervised):
    """It says what it is."""
    place.state.write_text("")
    assert "it is a file" in refused(place)


@as_root
def test_a_state_directory_of_somebody_else_is_refused(place: Supervised):
    """Even to root: its sockets would be theirs."""
    place.state.mkdir()
    os.chown(place.state, 65533, 65533)
    assert "belongs to user 65533" in refused(place)


def test_a_state_directory_that_cannot_be_made_is_refused(place: Supervised):
    """Below a file nothing can be."""
    (place.root / "file").write_text("")
    answer = place.refuse("--state-dir", str(place.root / "file" / "state"))
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer


def test_a_runtime_directory_that_is_a_file_is_refused(place: Supervised):
    """As for the state directory."""
    (place.root / "run").write_text("")
    assert "it is a file" in refused(place, "--runtime-dir", str(place.root / "run"))


def test_another_node_on_a_state_directory_is_refused(node: Supervised):
    """The name was pinned at the first start."""
    node.terminate()
    message = refused(node, "--node", "node-b")
    assert "belongs to node 'node-a': expected --node node-a, got node-b" in message


def test_a_second_supervisor_is_refused(node: Supervised):
    """With the process that runs."""
    assert f"one runs as process {node.supervisor.pid}" in refused(node)
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_another_number_of_buckets_is_refused(node: Supervised):
    """The deployment has recorded its own."""
    node.terminate()
    assert "expected 64" in refused(node, "--num-buckets", "32")


def test_an_owned_bucket_beyond_the_stores_number_is_refused(place: Supervised):
    """Judged against what the store has, where the command line names no number."""
    place.start("--num-buckets", "8").terminate()
    assert "7" in refused(place, "--owned-buckets", "8")


def test_a_supervisor_that_ends_as_asked_says_so(node: Supervised):
    """One that is killed cannot; the next one is live again."""
    assert [known.is_live for known in node.store.nodes()] == [True]
    node.terminate()
    [known] = node.store.nodes()
    assert (known.is_live, known.ended_at is not None) == (False, True)
    node.start()
    node.kill()
    [known] = node.store.nodes()
    assert (known.is_live, known.ended_at) == (True, None)


def test_a_supervisor_that_ends_as_asked_leaves_its_runtime_directory_empty(place: Supervised):
    """Neither what its forkserver had found out, nor what a killed supervisor had kept of another one's."""
    place.paths.runtime.mkdir(parents=True, mode=0o700)
    place.state.chmod(0o700)
    place.paths.trials.write_text("{}")
    node = place.start()
    assert not node.paths.trials.exists()
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
    assert node.terminate() == 0
    assert list(node.paths.runtime.iterdir()) == []


def test_a_supervisor_that_was_frozen_goes_on(node: Supervised):
    """Longer than its lease, and nobody judged: no signal was meant."""
    task_id = node.begun("until", path=str(node.root / "open"))
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    wait_until(lambda: node.store.leases([task_id])[0].is_past, "the lease to run out")
    os.kill(node.supervisor.pid, signal.SIGCONT)
    wait_until(lambda: not node.store.leases([task_id])[0].is_past, "a renewal")
    (node.root / "open").touch()
    assert node.end_of(task_id).status is S.SUCCEEDED
    assert node.events("draining") == []


def test_a_run_that_ended_while_it_was_judged_leaves_its_result_as_a_note(node: Supervised):
    """The supervisor was frozen; its task ended, and somebody called it lost."""
    task_id = node.begun("until", path=str(node.root / "open"))
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    (node.root / "open").touch()
    node.cli("reconcile")
    assert node.task(task_id).status is S.LOST
    os.kill(node.supervisor.pid, signal.SIGCONT)
    assert "with a result" in node.wait_for_note(task_id, "late_result").detail


def test_few_descriptors_cost_starts_and_nothing_else(place: Supervised):
    """Room for some thirty runs, forty wanted: the others wait, the supervisor stays."""
    node = place.start("--max-parallel", "40", files=120)
    ids = [node.submit("span", seconds=0.3) for _ in range(60)]
    assert {task.status for task in node.ends_of(ids)} == {S.SUCCEEDED}
    assert node.events("main_loop_failed") == []


def test_a_runtime_directory_that_was_cleared_is_made_again(node: Supervised):
    """Clients find the node again, and a new forkserver can start in it."""
    shutil.rmtree(node.state / "run")
    wait_until(lambda: node.cli("submit", "noop").code == 0, "a node that can be reached")
    os.kill(node.forkserver(), signal.SIGKILL)
    assert node.end_of(node.submit("noop")).status is S.SUCCEEDED
