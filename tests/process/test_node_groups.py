"""Groups and pipelines on a whole node: in their order, with results handed on, and stopped where they are to be."""

from pathlib import Path

import pytest
from node_bench import InProcess
from waiting import wait_until

from chong.store.ids import new_id
from chong.store.query import TaskQuery
from chong.store.states import Status
from chong.supervisor.members import member_id
from chong.worker.client import Client, NotEnded, Refused, RequestInvalid, UnknownGroup
from chong.worker.plan import call, group, pipeline

S = Status


@pytest.fixture
def client(shared: InProcess) -> Client:
    return Client(runtime_dir=shared.paths.runtime, issued_by="olga")


def begun(shared: InProcess, group_id: str, number: int) -> bool:
    return any(entry["id"] == member_id(group_id, number) for entry in shared.journal("begin"))


def ended(shared: InProcess, client: Client, plan) -> list:
    """Submitted, and waited for; its members' tasks in the store."""
    id_ = client.submit_group(plan)
    over = client.wait_group(id_, timeout=40)
    assert over.is_final
    return [shared.task(member.id) for member in over.members]


def test_a_pipeline_hands_results_on(shared: InProcess, client: Client):
    """Of a task its result, of a group the list of them; and each waits for what stands before it."""
    side_by_side = group([call("give", into="more"), call("give", params={"value": 2}, into="more")])
    id_ = client.submit_group(pipeline([call("give", params={"value": 1}), side_by_side, call("give", into="more")]))
    over = client.wait_group(id_, timeout=40)
    tasks = [shared.task(member.id) for member in over.members]
    first = [1, None]
    assert [task.outcome for task in tasks] == [first, [None, first], [2, first], [None, [[None, first], [2, first]]]]
    assert over.status == "succeeded"
    assert {(task.group_id, task.trigger) for task in tasks} == {(id_, "group")}
    order = [entry["id"] for entry in shared.journal("begin") if entry["id"] in {task.id for task in tasks}]
    assert (order[0], order[-1]) == (tasks[0].id, tasks[3].id)
    again = shared.request({"op": "rerun", "id": tasks[3].id, "as": new_id()})["task"]
    assert (shared.end_of(again["id"]).outcome, again["group_id"]) == (tasks[3].outcome, None)


def test_a_group_that_fails_fast_ends_all_else_in_it(shared: InProcess, client: Client, tmp_path: Path):
    """What runs is stopped, what waits is cancelled, and both say by whom and why."""
    never = {"path": str(tmp_path / "never")}
    calls = [call("until", params=never), call("refuse"), pipeline([call("until", params=never), call("noop")])]
    id_ = client.submit_group(group(calls, fail_fast=True, max_parallel=2))
    over = client.wait_group(id_, timeout=40)
    assert [member.status for member in over.members] == ["stopped", "failed", "cancelled", "cancelled"]
    assert over.status == "failed"
    stop = shared.task(over.members[0].id).stop
    assert stop is not None
    assert (stop.by, stop.reason) == (f"group {id_[-8:]}", f"refuse {over.members[1].id[-8:]} is failed")
    assert not begun(shared, id_, 3)


def test_a_group_bears_a_failure_unless_it_is_to_fail_fast(shared: InProcess, client: Client):
    """A pipeline does not: what stands behind never begins."""
    plan = group([call("refuse"), call("noop"), pipeline([call("refuse"), call("noop"), call("noop")])])
    tasks = ended(shared, client, plan)
    assert [task.status for task in tasks] == [S.FAILED, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.CANCELLED]


def test_what_an_operator_stops_stops_nothing_else(shared: InProcess, client: Client, tmp_path: Path):
    """Neither does it let a group fail fast."""
    gate = tmp_path / "gate"
    calls = [call("until", params={"path": str(gate)}) for _ in range(2)]
    id_ = client.submit_group(group(calls, fail_fast=True))
    shared.wait_for(member_id(id_, 0), S.RUNNING)
    assert client.stop(member_id(id_, 0), wait=True, timeout=40).status == "stopped"
    gate.touch()
    over = client.wait_group(id_, timeout=40)
    assert ([member.status for member in over.members], over.status) == (["stopped", "succeeded"], "stopped")


def test_no_more_than_so_many_members_run_at_one_time(shared: InProcess, client: Client):
    """Although all of them are queued from the beginning."""
    id_ = client.submit_group(group([call("span", params={"seconds": 0.05})] * 6, max_parallel=2))
    ids = {member_id(id_, number) for number in range(6)}
    assert {task.id for task in shared.store.query(TaskQuery(group=id_))} == ids
    assert client.wait_group(id_, timeout=40).status == "succeeded"
    assert shared.most_at_once(ids) == 2


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (group([call("noop"), call("nowhere")]), "call 2: unknown task 'nowhere'"),
        (group([call("give.number")]), "call 1: task 'give.number': expected parameters"),
        (group([call("give.number", params={"number": "x"})]), "call 1: task 'give.number': expected int at number"),
        (pipeline([call("noop"), call("give.number", into="numbr")]), "an unknown 'numbr' (did you mean 'number'?)"),
        (group([call("noop", key="x" * 501)]), "call 1 ('noop'): key: expected 1 to 500 characters, got 501"),
        (group([call("noop", retries=-1)]), "call 1 ('noop'): retries: expected a whole number from 0"),
        (group([]), "plan: expected at least one member, got none"),
        (call("noop"), "plan: expected a group or a pipeline, got Call"),
        (group([call("noop", params={"x": object()})]), "expected a JSON value, got object"),
        (group([5]), "plan[0]: expected a call, a group or a pipeline, got int"),
    ],
)
def test_what_cannot_be_run_is_refused_as_a_whole(shared: InProcess, client: Client, plan, fault):
    """Before anything of it is kept."""
    id_ = new_id()
    with pytest.raises((Refused, RequestInvalid)) as refused:
        client.submit_group(plan, group_id=id_)
    assert fault in str(refused.value)
    assert id_ not in shared.spooled("groups")
    assert shared.store.query(TaskQuery(group=id_)) == []


def test_a_result_that_does_not_fit_fails_whoever_was_to_have_it(shared: InProcess, client: Client):
    """Without a run, and with the reason."""
    tasks = ended(shared, client, pipeline([call("give"), call("give.number", into="number"), call("noop")]))
    assert [task.status for task in tasks] == [S.SUCCEEDED, S.FAILED, S.CANCELLED]
    failure = tasks[1].failure
    assert failure is not None
    assert failure.cause == "nothing_handed_on"
    assert "parameter 'number', handed on: task 'give.number': expected int at number, got" in failure.message
    assert tasks[1].attempt == 0


def test_a_group_that_comes_again_is_the_same(shared: InProcess, client: Client):
    """While it runs, and when it is over."""
    id_, plan = new_id(), group([call("noop"), call("noop")])
    assert [client.submit_group(plan, group_id=id_) for _ in range(2)] == [id_, id_]
    assert client.wait_group(id_, timeout=40).status == "succeeded"
    assert client.submit_group(plan, group_id=id_) == id_
    wait_until(lambda: shared.spooled("groups")[id_]["ended_at"], "the end of the group")
    assert client.get_group(id_[-12:]).facts["plan"]["group"][0]["status"] == "succeeded"
    assert len([entry for entry in shared.journal("begin") if entry["id"] == member_id(id_, 0)]) == 1


def test_a_whole_group_can_be_stopped(shared: InProcess, client: Client, tmp_path: Path):
    """Whoever waits for it hears so; and a wait has an end of its own."""
    until = call("until", params={"path": str(tmp_path / "never")})
    id_ = client.submit_group(pipeline([until, call("noop")]))
    shared.wait_for(member_id(id_, 0), S.RUNNING)
    with pytest.raises(NotEnded, match=f"group {id_}: expected its end within 0.2 s"):
        client.wait_group(id_, timeout=0.2)
    client.stop_group(id_, reason="enough")
    over = client.wait_group(id_, timeout=40)
    assert [member.status for member in over.members] == ["stopped", "cancelled"]
    assert over.status == "stopped"
    stop = shared.task(over.members[0].id).stop
    assert stop is not None
    assert (stop.by, stop.reason) == ("olga", "enough")


def test_a_group_that_nobody_knows_is_told(client: Client):
    """As such, whatever was asked for."""
    for ask in (client.get_group, client.wait_group, client.stop_group):
        with pytest.raises(UnknownGroup, match="no group of node node-a has an id that begins or ends with"):
            ask(new_id())
        with pytest.raises(RequestInvalid, match="expected a group's id, or a part of one"):
            ask("no id")


def test_nobody_becomes_a_member_from_outside(shared: InProcess):
    """A group is submitted as a whole."""
    with pytest.raises(Exception, match="group_id: expected none"):
        shared.request({"op": "submit", "name": "noop", "group_id": new_id()})
