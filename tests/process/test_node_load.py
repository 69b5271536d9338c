"""Many tasks at once, and tasks that shout: the node keeps its leases and everybody else's time."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from node_bench import LEASE, InProcess, S, children, is_alive, seconds, wait_until
from node_store import Fickle


def test_two_hundred_ends_within_a_moment(bench: InProcess):
    """200 results of 60 KB, none lost, and no zombie is left."""
    node = bench.start(max_parallel=200)
    gate = node.root / "gate"
    os.mkfifo(gate)
    ids = [node.controller.submit("talker", params={"size": 60_000}).id for _ in range(200)]
    wait_until(lambda: len(node.journal("begin")) == 200, "200 workers")
    with gate.open("wb"):
        tasks = node.ends_of(ids)
    assert {task.status for task in tasks} == {S.SUCCEEDED}
    assert {len(task.outcome) for task in tasks} == {60_000}
    ends = sorted(task.ended_at for task in tasks)
    assert seconds(ends[0], ends[-1]) < 10
    wait_until(lambda: node.zombies_of(os.getpid(), node.forkserver()) == [], "no zombies")


def test_progress_goes_on_for_as_long_as_the_task(node: InProcess):
    """What was read is taken out of the channel: a long run never falls silent."""
    task_id = node.submit("rise", seconds=4)
    node.wait_for(task_id, S.RUNNING)
    wait_until(lambda: node.task(task_id).progress, "progress")
    wait_until(
        lambda: node.task(task_id).status.is_final or node.task(task_id).progress.done > 250, "late progress", 20
    )
    task = node.end_of(task_id)
    assert task.progress.done == task.outcome
    beats = seconds(task.last_heartbeat_at, task.ended_at)
    assert beats < 1


@pytest.mark.parametrize("name", ["flood", "raw.flood"])
def test_a_flood_of_checkpoints_hurts_nobody(bench: InProcess, name):
    """100,000 of them: the others are served meanwhile, leases are renewed, and the store hears little of it."""
    store = Fickle(bench.store)
    node = bench.start(store)
    node.run("noop")
    began = time.monotonic()
    flood = node.submit(name, count=100_000)
    node.wait_for(flood, S.RUNNING, S.SUCCEEDED)
    others = [node.run("noop") for _ in range(5)]
    assert max(seconds(task.created_at, task.ended_at) for task in others) < 3
    task = node.end_of(flood, limit=60)
    passed = time.monotonic() - began
    assert (task.status, task.outcome) == (S.SUCCEEDED, 100_000)
    ends = 1 + 1 + len(others)  # each of them tells what its run has used
    assert store.calls["touch"] <= passed / 0.4 + 3 + ends
    assert store.calls["save_many"] < 60
    assert node.controller.renewals >= int(passed / LEASE * 4)


def test_leases_are_renewed_whatever_the_tasks_do(node: InProcess):
    """Deaf ones, looping ones, frozen ones: none of their leases comes near its end."""
    ids = [node.begun("deaf"), node.begun("c.loop"), node.begun("hold")]
    os.kill(node.worker_of(ids[2]), signal.SIGSTOP)
    renewed = node.controller.renewals
    wait_until(lambda: node.controller.renewals >= renewed + 8, "eight renewals")
    leases = node.store.leases(ids)
    assert [lease.is_past for lease in leases] == [False] * 3
    assert min(lease.renewals for lease in leases) >= 8
    assert node.controller.desynced_tasks == {}


def test_a_worker_gets_nothing_that_is_not_its_own(bench: InProcess):
    """No store, no address of one, no other's socket: its log, its channel, its leash."""
    os.environ["CHONG_DB"] = "postgresql://chong:geheim@db/chong"
    node = bench.start()
    bystander = node.begun("hold")
    found = node.run("look").outcome
    assert {name for name in found["links"] if int(name) < 5} == {"0", "1", "2", "3", "4"}
    assert len([name for name in found["links"] if int(name) >= 5]) <= 1  # the listing itself
    assert found["links"]["0"] == "/dev/null"
    assert not [link for link in found["links"].values() if "chong.db" in link or bystander in link]
    assert not [text for text in found["environment"].values() if "geheim" in text]
    assert (found["oom"], found["core"], found["threads"]) == (500, [0, 0], 1)


def test_no_process_of_the_node_shows_a_secret(bench: InProcess):
    """Neither forkserver nor worker has the store's address in its environment or on its descriptors."""
    os.environ["CHONG_DB"] = "postgresql://chong:geheim@db/chong"
    node = bench.start()
    worker = node.worker_of(node.begun("hold"))
    for pid in (node.forkserver(), worker):
        assert b"geheim" not in Path(f"/proc/{pid}/environ").read_bytes()
        links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        assert [link for link in links if "chong.db" in link] == []


def test_titles_tell_whose_a_process_is(node: InProcess):
    """Name, key and the id's end, and never a parameter."""
    task_id = node.submit("hold", "acme", seconds=55.125)
    node.wait_for(task_id, S.RUNNING)
    titles = node.processes().values()
    assert f"chong: worker hold acme {task_id[-8:]}" in titles
    assert any(title.startswith("chong: forkserver") for title in titles)
    assert not [title for title in titles if "55.125" in title]
    own = wait_until(lambda: Path("/proc/self/cmdline").read_text().rstrip("\0").strip(), "a title")
    assert own == "chong: supervisor node-a [all] 1 running"


def test_a_killed_forkserver_costs_nobody_anything(node: InProcess):
    """Running tasks end as they would have, waiting ones start in a new one within two seconds."""
    running = [node.begun("until", path=str(node.root / "open")) for _ in range(5)]
    killed = time.time()
    os.kill(node.forkserver(), signal.SIGKILL)
    fresh = node.submit("noop")
    assert node.end_of(fresh).status is S.SUCCEEDED
    assert node.wait_for_word(fresh)["at"] - killed < 2
    (node.root / "open").touch()
    tasks = node.ends_of(running)
    assert [(task.status, task.attempt, task.exit_code) for task in tasks] == [(S.SUCCEEDED, 1, 0)] * 5


def test_a_worker_without_its_forkserver_can_still_be_stopped(node: InProcess):
    """Its end and its status come to the supervisor above."""
    task_id = node.begun("deaf")
    pid = node.worker_of(task_id)
    os.kill(node.forkserver(), signal.SIGKILL)
    wait_until(lambda: len(node.forkservers()) == 1, "a new forkserver")
    node.controller.stop(task_id)
    task = node.end_of(task_id)
    assert (task.status, task.forced, task.exit_signal) == (S.STOPPED, True, signal.SIGKILL)
    assert not is_alive(pid)


def test_what_a_dead_forkserver_leaves_is_reaped(node: InProcess):
    """A daemon that nobody knows comes to the supervisor; when it ends, no zombie of it stays."""
    task_id = node.begun("family", how=str(node.root / "pids"), wait=True)
    pids = json.loads((node.root / "pids").read_text())
    os.kill(node.forkserver(), signal.SIGKILL)
    wait_until(lambda: pids["daemon"] in children(), "its coming to us")
    node.controller.stop(task_id)
    assert node.end_of(task_id).status is S.STOPPED
    os.kill(pids["daemon"], signal.SIGKILL)
    os.kill(pids["session"], signal.SIGKILL)
    wait_until(lambda: not children() & set(pids.values()), "the reaping")


def test_what_was_starting_goes_back_to_the_queue(node: InProcess):
    """The frozen forkserver had not forked it: that attempt does not count."""
    forkserver = node.forkserver()
    node.run("noop")
    os.kill(forkserver, signal.SIGSTOP)
    task_id = node.submit("noop")
    node.wait_for(task_id, S.STARTING)
    os.kill(forkserver, signal.SIGKILL)
    task = node.end_of(task_id)
    assert (task.status, task.attempt, task.unstarted) == (S.SUCCEEDED, 2, 1)
    assert len([entry for entry in node.journal() if entry["id"] == task_id]) == 1
