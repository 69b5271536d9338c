"""SIGHUP and `chong reload` with edited task code, and what a supervisor's death beside a reload costs."""

import os
import signal

import pytest
from node_bench import S, Supervised, is_alive, title_of, wait_until

CODE = """
import pathlib, time
from chong.worker import task

while pathlib.Path("hang").exists():
    time.sleep(0.01)

@task("fresh")
def fresh(ctx):
    return "{code}"

@task("fresh.until")
def until(ctx, path):
    while not pathlib.Path(path).exists():
        ctx.checkpoint()
        ctx.sleep(0.01)
    return "{code}"
"""


def write(node: Supervised, code: str) -> None:
    """Of another length each time: a cached one of the same second and size would be used."""
    (node.root / "fresh_tasks.py").write_text(CODE.format(code=code))


@pytest.fixture
def fresh(place: Supervised) -> Supervised:
    write(place, "a")
    return start(place)


def start(node: Supervised) -> Supervised:
    return node.start("--tasks", "fresh_tasks", lease=30)


def begin(node: Supervised) -> str:
    task_id = node.submit("fresh.until", path=str(node.root / "open"))
    node.wait_for(task_id, S.RUNNING)
    return task_id


def let_go(node: Supervised) -> None:
    (node.root / "open").touch()


def generations(node: Supervised) -> dict[int, int]:
    """The living forkservers by generation."""
    return {int(title_of(pid).rpartition(" g")[2]): pid for pid in node.forkservers()}


def hang_up(node: Supervised) -> None:
    node.supervisor.send_signal(signal.SIGHUP)


KILLS_ITS_FORKSERVER = """
import os
if "probe" in open("/proc/self/cmdline").read():
    os.kill(os.getppid(), 9)
"""


def outcome(node: Supervised) -> object:
    return node.end_of(node.submit("fresh")).outcome


def test_a_hangup_loads_edited_code_beside_a_run_of_the_old_code(fresh: Supervised):
    """`chong nodes` shows the new generation; the old run ends as it had begun, and nothing restarts."""
    task_id, supervisor = begin(fresh), fresh.supervisor.pid
    write(fresh, "bb")
    hang_up(fresh)
    wait_until(lambda: len(fresh.events("generation_ready")) == 2, "a second generation")
    assert outcome(fresh) == "bb"
    wait_until(lambda: fresh.cli("nodes", "--json").json[0]["generation"] == 2, "the node's new row")
    let_go(fresh)
    assert fresh.end_of(task_id).outcome == "a"
    wait_until(lambda: [event["generation"] for event in fresh.events("generation_ended")] == [1], "its end")
    assert (fresh.supervisor.pid, fresh.supervisor.poll(), fresh.task(task_id).attempt) == (supervisor, None, 1)


def test_the_command_says_what_was_loaded(fresh: Supervised):
    """How many tasks, and which module failed; a script that deploys sees that by the exit code."""
    write(fresh, "bb")
    answer = fresh.cli("reload")
    assert (answer.code, answer.out.startswith("generation 2 is live, with "), answer.err) == (0, True, "")
    (fresh.root / "fresh_tasks.py").write_text("import no_such_module")
    answer = fresh.cli("reload")
    assert (answer.code, answer.out.startswith("generation 3 is live, with ")) == (1, True)
    reason = "ModuleNotFoundError: No module named 'no_such_module' (fresh_tasks.py:1)"
    assert answer.err == f"chong: module fresh_tasks failed: {reason}\n"
    shown = fresh.cli("reload", "--json")
    assert (shown.json["generation"], list(shown.json["errors"])) == (4, ["fresh_tasks"])


def test_a_second_task_of_one_name_is_refused_and_its_module_served(fresh: Supervised):
    """The answer, the log and the list say which definition stays and which does not: it is no failure of a module."""
    text = "from chong.worker import task\n" + "".join(
        f"@task({name!r})\ndef {name}{number}(ctx): return {number}\n"
        for number, name in enumerate(("fresh", "fresh", "beside"))
    )
    (fresh.root / "fresh_tasks.py").write_text(text)
    answer = fresh.cli("reload")
    told = (
        "fresh_tasks:4 (fresh1) is refused: expected one definition of the name, that of fresh_tasks:2 (fresh0) stays"
    )
    assert (answer.code, answer.err) == (1, f"chong: task fresh: {told}\n")
    assert fresh.events("module_broken") == []
    (event,) = fresh.events("task_refused")
    assert (event["name"], event["module"], event["error"]) == ("fresh", "fresh_tasks", told)
    shown = {row["name"]: row["error"] for row in fresh.cli("tasks", "--json").json}
    assert (shown["fresh"], shown["beside"], "(fresh_tasks)" in shown) == (told, None, False)
    assert [fresh.end_of(fresh.submit(name)).outcome for name in ("fresh", "beside")] == [0, 2]


def test_the_command_fails_when_the_old_code_stays(fresh: Supervised):
    """With the reason; the supervisor's log has it too."""
    (fresh.root / "fresh_tasks.py").write_text(KILLS_ITS_FORKSERVER)
    hang_up(fresh)
    wait_until(lambda: fresh.events("reload_failed"), "the failed reload")
    answer = fresh.cli("reload")
    assert (answer.code, answer.out) == (1, "")
    assert "did not come to life" in answer.err
    assert outcome(fresh) == "a"


def test_the_command_needs_its_supervisor(place: Supervised):
    """In one line."""
    answer = place.cli("reload")
    assert (answer.code, "is chong-supervisor running on this machine?" in answer.err) == (1, True)


def test_a_hangup_while_the_node_goes_down_changes_nothing(fresh: Supervised):
    """It ends as it was asked to."""
    fresh.begun("hold")
    fresh.supervisor.terminate()
    hang_up(fresh)
    assert fresh.supervisor.wait(40) == 0
    assert len(fresh.events("generation_ready")) == 1


def test_the_next_supervisor_takes_over_the_runs_of_all_generations(fresh: Supervised):
    """Each with its own code; new runs have the newest."""
    first = begin(fresh)
    write(fresh, "bb")
    assert fresh.cli("reload").code == 0
    second = begin(fresh)
    fresh.kill()
    start(fresh)
    let_go(fresh)
    assert [task.outcome for task in fresh.ends_of([first, second])] == ["a", "bb"]
    assert outcome(fresh) == "bb"
    wait_until(lambda: list(generations(fresh)) == [3], "one generation")


def test_a_supervisor_that_is_killed_during_a_reload_costs_nothing(place: Supervised):
    """The next one takes the run over; what was still importing has no runs, and goes with its supervisor."""
    write(place, "a")
    fresh = place.start("--tasks", "fresh_tasks", lease=12)
    task_id = begin(fresh)
    (fresh.root / "hang").touch()
    hang_up(fresh)
    coming = wait_until(lambda: generations(fresh).get(2), "a second forkserver")
    fresh.kill()
    fresh.start("--tasks", "fresh_tasks", lease=12, wait=False)
    wait_until(lambda: fresh.task(task_id).lease_owner == fresh.store.terms("node-a")[0].term, "its takeover")
    let_go(fresh)
    assert fresh.end_of(task_id).outcome == "a"
    (fresh.root / "hang").unlink()
    assert outcome(fresh) == "a"
    wait_until(lambda: not is_alive(coming), "the end of the one that nobody came for")


def test_a_forkserver_that_answered_nobody_and_died_leaves_no_socket_behind_its_node(place: Supervised):
    """The supervisor that met it could not attach; when that one ends, nothing of the node is left."""
    write(place, "a")
    node = place.start("--tasks", "fresh_tasks", lease=12)
    (node.root / "hang").touch()
    hang_up(node)
    coming = wait_until(lambda: generations(node).get(2), "a second forkserver")
    os.kill(coming, signal.SIGSTOP)
    node.kill()
    node.start("--tasks", "fresh_tasks", lease=12, wait=False)
    wait_until(lambda: node.events("forkserver_silent"), "a forkserver that does not answer")
    os.kill(coming, signal.SIGKILL)
    (node.root / "hang").unlink()
    wait_until(lambda: not is_alive(coming), "its end")
    assert node.terminate() == 0
    assert node.sockets() == []


@pytest.mark.parametrize("killed", [None, 1, 2])
def test_a_start_under_way_is_known_by_the_generation_that_it_was_claimed_for(fresh: Supervised, killed: int | None):
    """By that one alone: with its death nobody knows, and another generation's answer proves nothing."""
    begin(fresh)  # keeps the first generation alive
    forkserver = generations(fresh)[1]
    os.kill(forkserver, signal.SIGSTOP)
    task_id = fresh.submit("noop")
    fresh.wait_for(task_id, S.STARTING)
    assert fresh.cli("reload").code == 0
    second = fresh.submit("fresh.until", path=str(fresh.root / "open"))
    fresh.wait_for(second, S.RUNNING)  # keeps the second one
    fresh.kill()
    if killed is not None:
        os.kill(generations(fresh)[killed], signal.SIGKILL)
    if killed != 1:
        os.kill(forkserver, signal.SIGCONT)
    start(fresh)
    let_go(fresh)
    task = fresh.end_of(task_id)
    begun = [entry for entry in fresh.journal("begin") if entry["id"] == task_id]
    if killed == 1:
        assert (task.status, begun) == (S.LOST, [])
    else:
        assert (task.status, len(begun)) == (S.SUCCEEDED, 1)
