"""New task code in a running node: a new generation goes live, and the old one goes with its last run."""

import os
import re
import signal
import threading
from concurrent.futures import Future

import pytest
from node_bench import InProcess, S, descriptors, gained, title_of, wait_until

from chong.store.errors import Refused
from chong.supervisor.reloads import Reloaded

CODE = """
import os, pathlib, time
from chong.worker import task

{first}
while pathlib.Path("hang").exists():
    time.sleep(0.01)

@task("fresh", max_parallel={limit})
def fresh(ctx):
    return "{code}"

@task("fresh.until")
def until(ctx, path):
    pathlib.Path(path + ".begun").touch()
    while not pathlib.Path(path).exists():
        ctx.checkpoint()
        ctx.sleep(0.01)
    return "{code}"

@task("{code}.only")
def only(ctx):
    return "{code}"
"""


def write(node: InProcess, code: str, *, first: str = "", limit: int | None = None) -> None:
    """The source differs in length from version to version: a cached one of the same second and size would be used."""
    (node.root / "fresh_tasks.py").write_text(CODE.format(code=code, first=first, limit=limit))


@pytest.fixture
def fresh(bench: InProcess) -> InProcess:
    """A running node whose module has been written, version `a`."""
    write(bench, "a")
    node = bench.start(modules=("node_tasks", "fresh_tasks"), max_parallel=8)
    wait_for_generation(node, 1)
    return node


def begin(node: InProcess, name: str) -> str:
    """A run that goes on until `open_(node, name)`."""
    task_id = node.submit("fresh.until", path=str(node.root / name))
    node.wait_for(task_id, S.RUNNING)
    wait_until((node.root / f"{name}.begun").exists, "its first line")
    return task_id


def let_go(node: InProcess, name: str) -> None:
    (node.root / name).touch()


def reload_beside(node: InProcess) -> Future[Reloaded]:
    """Ask for a reload in another thread."""
    answer: Future[Reloaded] = Future()

    def ask() -> None:
        try:
            answer.set_result(node.controller.reload(40))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer


def wait_for_askers(node: InProcess, count: int) -> None:
    """Until so many reloads wait for the one under way; nothing outside the node shows that."""
    generations = node.controller._term._parts.processes.generations
    wait_until(lambda: len(generations._reloads) == count, "their requests")


def wait_for_generation(node: InProcess, number: int) -> None:
    wait_until(lambda: node.store.nodes()[0].generation == number, f"generation {number} in the store")


def forkserver_of(node: InProcess, generation: int) -> int:
    def look() -> int | None:
        return next((pid for pid in node.forkservers() if title_of(pid) == f"chong: forkserver g{generation}"), None)

    return int(wait_until(look, f"forkserver of generation {generation}"))


def hang(node: InProcess) -> Future[Reloaded]:
    """A reload whose generation imports until `unhang`."""
    (node.root / "hang").touch()
    answer = reload_beside(node)
    wait_until(lambda: len(node.forkservers()) > 1, "a second forkserver")
    return answer


def unhang(node: InProcess) -> None:
    (node.root / "hang").unlink()


def test_new_runs_have_the_new_code_and_old_ones_keep_theirs(fresh: InProcess):
    """The old generation serves until the new one is live, and ends with its last run."""
    old = begin(fresh, "old")
    write(fresh, "bb")
    loaded = fresh.controller.reload()
    assert (loaded.generation, dict(loaded.errors)) == (2, {})
    assert fresh.run("fresh").outcome == "bb"
    assert len(fresh.forkservers()) == 2
    let_go(fresh, "old")
    assert fresh.end_of(old).outcome == "a"
    wait_until(lambda: len(fresh.forkservers()) == 1, "the old generation's end")
    wait_until(lambda: fresh.sockets() == ["control.sock", "generation-2.sock"], "the end of its socket")


def test_the_store_shows_the_live_generation_and_its_tasks(fresh: InProcess):
    """For `chong nodes` and `chong tasks`."""
    wait_for_generation(fresh, 1)
    write(fresh, "bb")
    fresh.controller.reload()
    wait_for_generation(fresh, 2)
    names = {entry.name for entry in fresh.store.catalogue("node-a")}
    assert ("bb.only" in names, "a.only" in names) == (True, False)


def test_waiting_work_whose_definition_is_gone_fails(fresh: InProcess):
    """Nothing will ever run it; what is defined still runs under the new code."""
    blockers = [begin(fresh, f"block{n}") for n in range(8)]
    gone, stays = fresh.submit("a.only"), fresh.submit("fresh")
    write(fresh, "bb")
    fresh.controller.reload()
    for n in range(8):
        let_go(fresh, f"block{n}")
    assert (task := fresh.end_of(gone)).status is S.FAILED
    assert (task.failure.kind, task.failure.cause) == ("import_error", "import")
    assert fresh.end_of(stays).outcome == "bb"
    assert {task.outcome for task in fresh.ends_of(blockers)} == {"a"}


def test_a_new_limit_holds_for_what_waits_already(bench: InProcess):
    """Two wait behind a limit of one; with the new one both start beside it."""
    source = CODE.replace('@task("fresh.until")', '@task("fresh.until", max_parallel={limit})')
    (bench.root / "fresh_tasks.py").write_text(source.format(code="a", first="", limit=1))
    node = bench.start(modules=("fresh_tasks",))
    begin(node, "one")
    waiting = [node.submit("fresh.until", path=str(node.root / name)) for name in ("two", "three")]
    assert {node.task(task_id).status for task_id in waiting} == {S.QUEUED}
    (bench.root / "fresh_tasks.py").write_text(source.format(code="bb", first="", limit=3))
    node.controller.reload()
    for task_id in waiting:
        node.wait_for(task_id, S.RUNNING)


def test_a_module_that_raises_is_no_failure_of_a_reload(fresh: InProcess):
    """It costs its own tasks; the answer and the catalogue say why."""
    write(fresh, "bb", first="raise ValueError('no such table')")
    loaded = fresh.controller.reload()
    assert (loaded.generation, list(loaded.errors)) == (2, ["fresh_tasks"])
    assert "no such table" in loaded.errors["fresh_tasks"]
    assert fresh.run("noop").status is S.SUCCEEDED


def test_a_generation_that_does_not_come_to_life_changes_nothing(fresh: InProcess):
    """The old one goes on, and whoever asked hears why."""
    pid = fresh.forkserver()
    reloading = hang(fresh)
    os.kill(forkserver_of(fresh, 2), signal.SIGKILL)
    with pytest.raises(Refused, match=r"generation 2 did not come to life: .*generation-2\.log"):
        reloading.result(40)
    unhang(fresh)
    assert fresh.run("fresh").outcome == "a"
    assert fresh.forkservers() == [pid]
    assert fresh.controller.reload().generation == 3


def test_an_import_that_never_ends_is_given_up(bench: InProcess):
    """After the seconds that an import may take: it costs the module's own tasks, and those of others have new code."""
    write(bench, "a")
    node = bench.start(modules=("node_tasks", "fresh_tasks"), import_seconds=3.0)
    assert node.run("fresh").outcome == "a"
    reloading = hang(node)
    found = reloading.result(40)
    assert (found.generation, set(found.errors)) == (2, {"fresh_tasks"})
    assert re.match(r"it did not finish its import within 3 s \(fresh_tasks.py:\d+\)\Z", found.errors["fresh_tasks"])
    with pytest.raises(Refused, match="module fresh_tasks failed: it did not finish"):
        node.run("fresh")


def test_who_asks_during_a_reload_gets_the_next_one(fresh: InProcess):
    """What is being imported may be older than the request; two that ask meanwhile share one."""
    first = hang(fresh)
    later = [reload_beside(fresh) for _ in range(2)]
    wait_for_askers(fresh, 2)
    unhang(fresh)
    assert first.result(40).generation == 2
    assert [answer.result(40).generation for answer in later] == [3, 3]


def test_a_reload_before_the_first_generation_is_ready_waits_for_it(bench: InProcess):
    """The code may have changed since that one began."""
    write(bench, "a")
    (bench.root / "hang").touch()
    node = bench.start(modules=("node_tasks", "fresh_tasks"))
    forkserver_of(node, 1)
    answer = reload_beside(node)
    wait_for_askers(node, 1)
    unhang(node)
    assert answer.result(40).generation == 2


def test_a_fifth_generation_waits_until_one_has_ended(fresh: InProcess):
    """It says so at once, and comes by itself."""
    held = []
    for number in range(1, 5):
        held.append(begin(fresh, f"run{number}"))
        if number < 4:
            write(fresh, "b" * (number + 1))
            assert fresh.controller.reload().generation == number + 1
    write(fresh, "newest")
    with pytest.raises(Refused, match="the reload waits: generations 1, 2, 3, 4 have runs"):
        fresh.controller.reload()
    assert len(fresh.forkservers()) == 4
    let_go(fresh, "run2")
    assert fresh.end_of(held[1]).outcome == "bb"
    wait_for_generation(fresh, 5)
    assert fresh.run("fresh").outcome == "newest"


def test_the_old_forkserver_may_die_while_the_new_one_comes(fresh: InProcess):
    """Its run goes on, waiting work waits for the new one."""
    old = begin(fresh, "old")
    write(fresh, "bb")
    reloading = hang(fresh)
    os.kill(forkserver_of(fresh, 1), signal.SIGKILL)
    wait_until(lambda: len(fresh.forkservers()) == 1, "its death")
    unhang(fresh)
    assert reloading.result(40).generation == 2
    assert fresh.run("fresh").outcome == "bb"
    assert not fresh.paths.trials.exists()
    let_go(fresh, "old")
    assert (task := fresh.end_of(old)).outcome == "a"
    assert task.attempt == 1


def test_a_replaced_forkserver_may_die_with_its_runs(fresh: InProcess):
    """They live on, as those of any other."""
    old = begin(fresh, "old")
    write(fresh, "bb")
    fresh.controller.reload()
    os.kill(forkserver_of(fresh, 1), signal.SIGKILL)
    wait_until(lambda: len(fresh.forkservers()) == 1, "its death")
    let_go(fresh, "old")
    assert fresh.end_of(old).outcome == "a"
    assert fresh.run("fresh").outcome == "bb"


def test_a_start_under_way_comes_from_the_generation_that_it_was_claimed_for(fresh: InProcess):
    """It does not start over: the old one is retired only when no start of it is open."""
    fresh.run("noop")
    forkserver = fresh.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    task_id = fresh.submit("fresh")
    fresh.wait_for(task_id, S.STARTING)
    write(fresh, "bb")
    assert fresh.controller.reload().generation == 2
    os.kill(forkserver, signal.SIGCONT)
    assert (task := fresh.end_of(task_id)).outcome == "a"
    assert (task.attempt, task.unstarted) == (1, 0)
    wait_until(lambda: len(fresh.forkservers()) == 1, "the old generation's end")


def test_a_replaced_forkserver_that_is_stuck_is_ended(bench: InProcess):
    """Not the live one: the start goes back to the queue and comes from there."""
    write(bench, "a")
    node = bench.start(modules=("node_tasks", "fresh_tasks"))
    node.run("noop")
    forkserver = node.forkserver()
    os.kill(forkserver, signal.SIGSTOP)
    task_id = node.submit("starts.soon")
    node.wait_for(task_id, S.STARTING)
    assert node.controller.reload().generation == 2
    live = forkserver_of(node, 2)
    task = node.end_of(task_id)
    assert (task.status, task.attempt, task.unstarted) == (S.SUCCEEDED, 2, 1)
    assert node.forkservers() == [live]


def test_a_node_that_goes_down_does_not_wait_for_an_import(fresh: InProcess):
    """Who asked for the reload hears so; nothing is left behind."""
    reloading = hang(fresh)
    fresh.controller.close()
    with pytest.raises(Refused, match="going down"):
        reloading.result(40)
    with pytest.raises(Refused, match="closed"):
        fresh.controller.reload()


def test_reloads_leave_nothing_behind(fresh: InProcess):
    """Descriptors, processes, sockets, locks and lists of tasks."""

    def only(number: int) -> bool:
        """Of the former ones the node has let everything go, which it does behind the end of their processes."""
        left = [path.name for path in [*fresh.paths.runtime.iterdir(), *fresh.state.glob("generation-*")]]
        mine = [f"generation-{number}.{kind}" for kind in ("json", "lock", "sock")]
        return sorted(left) == ["control.sock", *mine] and len(fresh.forkservers()) == 1

    assert fresh.controller.reload().generation == 2
    wait_until(lambda: only(2), "nothing of the first generation")
    before = descriptors()
    for number in range(3, 8):
        assert fresh.controller.reload().generation == number
    wait_until(lambda: only(7), "nothing of the former generations")
    wait_until(lambda: not gained(before, descriptors()), "no more descriptors than before")
