"""Groups over the deaths of their node: what was queued goes on in its order, and what is lost is said to be."""

import contextlib
import os
import signal
import sqlite3
from pathlib import Path

from node_bench import LEASE, Supervised

from chong.store.states import Status
from chong.supervisor.members import member_id
from chong.worker.client import Client
from chong.worker.plan import call, group, pipeline

S = Status
TAKING = call("give", into="more")


def submitted(place: Supervised, plan) -> str:
    return Client(runtime_dir=place.paths.runtime).submit_group(plan)


def until(path: Path):
    return call("until", params={"path": str(path)})


def statuses(place: Supervised, group_id: str, count: int) -> list[Status]:
    return [task.status for task in place.ends_of(member_id(group_id, number) for number in range(count))]


def kill_all(place: Supervised) -> None:
    for pid in [place.supervisor.pid, *place.processes()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    place.supervisor.wait()


def test_a_killed_supervisor_goes_on_with_its_groups(place: Supervised, tmp_path: Path):
    """The step that ran is taken over, the others wait their turn, and results are handed on over the death."""
    place.start()
    gate = tmp_path / "gate"
    id_ = submitted(place, pipeline([call("give", params={"value": 7}), until(gate), TAKING, TAKING]))
    place.wait_for(member_id(id_, 1), S.RUNNING)
    place.kill()
    gate.touch()
    place.start()
    assert statuses(place, id_, 4) == [S.SUCCEEDED] * 4
    assert place.task(member_id(id_, 3)).outcome == [None, [None, "released"]]
    assert [len([e for e in place.journal("begin") if e["id"] == member_id(id_, n)]) for n in range(4)] == [1] * 4
    assert [task.attempt for task in map(place.task, (member_id(id_, n) for n in range(4)))] == [1] * 4


def test_a_node_that_is_killed_as_a_whole_says_what_it_does_not_know(place: Supervised, tmp_path: Path):
    """A lost member lets its group fail fast; another group goes on with what was queued."""
    place.start("--lease-seconds", LEASE)
    never = until(tmp_path / "never")
    fast = submitted(place, group([never, call("noop"), call("noop")], fail_fast=True, max_parallel=1))
    slow = submitted(place, group([never, call("noop"), call("noop")], max_parallel=1))
    for id_ in (fast, slow):
        place.wait_for(member_id(id_, 0), S.RUNNING)
    kill_all(place)
    place.start()
    assert statuses(place, fast, 3) == [S.LOST, S.CANCELLED, S.CANCELLED]
    assert statuses(place, slow, 3) == [S.LOST, S.SUCCEEDED, S.SUCCEEDED]
    stop = place.task(member_id(fast, 1)).stop
    assert stop is not None
    assert stop.reason == f"until {member_id(fast, 0)[-8:]} is lost"


def test_members_whose_group_cannot_be_read_do_not_run_out_of_order(place: Supervised, tmp_path: Path):
    """What waits is cancelled and says so, what runs goes on, and the structure is set aside."""
    place.start()
    gate = tmp_path / "gate"
    id_ = submitted(place, pipeline([until(gate), call("noop")]))
    place.wait_for(member_id(id_, 0), S.RUNNING)
    place.kill()
    with contextlib.closing(sqlite3.connect(place.paths.spool, isolation_level=None)) as spool:
        spool.execute("UPDATE groups SET content = 'junk'")
    place.start()
    gate.touch()
    assert statuses(place, id_, 2) == [S.SUCCEEDED, S.CANCELLED]
    stop = place.task(member_id(id_, 1)).stop
    assert stop is not None
    assert stop.reason == "the structure of its group is not in the spool of its node"
    assert place.events("group_unreadable")[0]["group"] == id_
    with contextlib.closing(sqlite3.connect(place.paths.spool)) as spool:
        assert spool.execute("SELECT kind, content FROM unreadable").fetchall() == [("group", "junk")]
