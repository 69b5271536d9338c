"""A node in a cgroup that is too small for it: the kernel kills for memory, and refuses processes."""

import signal
import uuid
from collections.abc import Iterator

import pytest
from controllers import Limited
from judge import RENEWAL, start
from node_bench import S, Supervised, wait_until
from witness import MIB, Witness

ROOM = 128 * MIB
MANY = 4096


@pytest.fixture
def memory() -> Iterator[Limited]:
    yield from limited("memory")


@pytest.fixture
def pids() -> Iterator[Limited]:
    yield from limited("pids")


def limited(controller: str) -> Iterator[Limited]:
    made = Limited(controller, f"chong-test-{uuid.uuid4().hex[:8]}")
    try:
        yield made
    finally:
        made.remove()


def test_the_kernel_takes_the_greedy_run_and_nobody_else(memory: Limited, place: Supervised):
    """The whole node is in the group, as in a container: what it kills is the worker, neither supervisor nor
    forkserver nor another run."""
    node = start(place, within=memory.within)
    with Witness(node, RENEWAL):
        memory.allow(memory.used() + ROOM)
        task = node.end_of(node.submit("bad", how="takes all memory"))
        assert (task.status, task.failure.kind, task.failure.cause) == (S.FAILED, "crashed", "SIGKILL")
        assert (task.exit_signal, task.forced) == (signal.SIGKILL, False)
        assert task.failure.message.endswith("not asked for by chong")
        assert memory.oom_kills() == 1
        assert node.end_of(node.submit("noop")).status is S.SUCCEEDED


def test_no_room_for_processes_in_its_group_delays_starts_and_nothing_else(pids: Limited, place: Supervised):
    """Neither forks nor threads are to be had, for the supervisor neither: the start waits for the room."""
    node = start(place, within=pids.within)
    with Witness(node, RENEWAL):
        pids.allow(1)
        waiting = node.submit("noop")
        refused = wait_until(lambda: [m for m in node.store.history(waiting) if "refused" in (m.reason or "")], "it")
        assert "fork refused" in refused[0].reason
        assert node.task(waiting).status in {S.QUEUED, S.STARTING}
        pids.allow(MANY)
        task = node.end_of(waiting)
        assert (task.status, task.attempt - task.unstarted) == (S.SUCCEEDED, 1)
