"""A task that keeps crashing is held by its node, and nothing else is."""

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from node_bench import InProcess, S, title_of, wait_until

from chong.store.errors import Refused
from chong.supervisor.reloads import Reloaded

CRASHES = 5
HANGS = """
import pathlib, time

while pathlib.Path("hang").exists():
    time.sleep(0.01)
"""


@pytest.fixture
def node(bench: InProcess) -> InProcess:
    return bench.start(breaker_crashes=CRASHES)


@pytest.fixture
def hanging(bench: InProcess) -> InProcess:
    """A node one of whose modules takes as long to import as the file `hang` is there."""
    (bench.root / "hanging_tasks.py").write_text(HANGS)
    return bench.start(modules=("node_tasks", "hanging_tasks"), breaker_crashes=CRASHES)


def kill_generation(node: InProcess, number: int) -> None:
    """And wait for its end."""

    def look() -> int | None:
        return next((pid for pid in node.forkservers() if title_of(pid) == f"chong: forkserver g{number}"), None)

    os.kill(int(wait_until(look, f"generation {number}")), signal.SIGKILL)
    generations = node.controller._term._parts.processes.generations
    wait_until(lambda: number not in generations._generations, "its burial")


def reload_amid_deaths(node: InProcess, *deaths: int) -> Reloaded | Exception:
    """Ask for a reload, let the generations die one after the other while it imports; what the reload came to."""
    (node.root / "hang").touch()
    with ThreadPoolExecutor(1) as pool:
        answer: Future[Reloaded] = pool.submit(node.controller.reload, 40)
        wait_until(lambda: len(node.forkservers()) > 1, "a second forkserver")
        for number in deaths:
            kill_generation(node, number)
        (node.root / "hang").unlink()
        return answer.exception() or answer.result()


def shown(node: InProcess, name: str) -> str:
    found = (entry.hold for entry in node.store.catalogue("node-a") if entry.name == name)
    return next(found, None) or ""


def crash(node: InProcess, count: int = CRASHES) -> list[str]:
    """One after the other, so that none waits behind the trip."""
    ids = []
    for _ in range(count):
        ids.append(node.submit("end", how="segfault"))
        node.end_of(ids[-1])
    return ids


def trip(node: InProcess, count: int = CRASHES) -> None:
    crash(node, count)
    wait_until(lambda: shown(node, "end"), "the hold in the store")


def test_so_many_crashes_hold_the_name(node: InProcess):
    """With the last cause; what waits is not failed, other names go on."""
    assert {node.task(task_id).status for task_id in crash(node)} == {S.FAILED}
    wait_until(lambda: "breaker: 5 crashes in 10 min, last: SIGSEGV" in shown(node, "end"), "the hold in the store")
    waiting = node.submit("end", how="sys.exit(0)")
    assert node.run("noop").status is S.SUCCEEDED
    assert node.task(waiting).status is S.QUEUED
    node.ask("unhold", "end", by="olga")
    assert node.end_of(waiting).failure.cause == "SystemExit"


def test_what_would_be_retried_waits_too(node: InProcess):
    """Its attempts are not used up while it is held."""
    ids = [node.submit("end.retried", how="os._exit(7)") for _ in range(CRASHES)]
    wait_until(lambda: shown(node, "end.retried"), "the hold in the store")
    node.run("span", seconds=2.5)  # longer than the pause of the first retry
    tasks = [node.task(task_id) for task_id in ids]
    assert {task.status for task in tasks} <= {S.RETRYING, S.QUEUED}
    assert sum(task.attempt for task in tasks) == CRASHES


def test_exceptions_and_stops_do_not_trip_it(node: InProcess):
    """Nor does a worker that a stop had to kill."""
    for _ in range(CRASHES):
        assert node.run("end", how="sys.exit(text)").failure.kind == "exception"
    for _ in range(CRASHES):
        deaf = node.begun("deaf")
        node.controller.stop(deaf)
        assert node.end_of(deaf).status is S.STOPPED
    assert node.run("end", how="GeneratorExit").failure.kind == "exception"
    assert (shown(node, "end"), shown(node, "deaf")) == ("", "")


def test_success_in_between_does_not_clear_it(node: InProcess):
    """A task that crashes for every other customer is as broken."""
    for _ in range(CRASHES - 1):
        crash(node, 1)
        node.run("end", how="colliding keys")
    assert shown(node, "end") == ""
    trip(node, 1)


def test_it_holds_over_a_restart_and_a_lost_forkserver(node: InProcess):
    """The code is the same, and so would be the crashes."""
    trip(node)
    node.controller.close()
    node.start()
    os.kill(node.forkserver(), signal.SIGKILL)
    waiting = node.submit("end", how="nan")
    assert node.run("noop").status is S.SUCCEEDED
    assert node.task(waiting).status is S.QUEUED
    assert "breaker" in shown(node, "end")


def test_new_code_clears_what_the_breaker_holds_and_nothing_else(node: InProcess):
    """An operator's hold stays, also of a name that the breaker had held before."""
    trip(node)
    node.ask("hold", "noop", by="olga")
    node.controller.reload()
    assert node.run("end", how="nan").status is S.FAILED
    assert [fact["had"] is None for fact in node.ask("unhold", "end", "noop", by="x")] == [True, False]
    node.ask("hold", "end", by="olga")
    crash_free = node.submit("end", how="nan")
    node.controller.reload()
    assert node.run("noop").status is S.SUCCEEDED
    assert node.task(crash_free).status is S.QUEUED


def test_new_code_begins_the_count_anew(node: InProcess):
    """What crashed before it says nothing about it."""
    crash(node, CRASHES - 1)
    node.controller.reload()
    crash(node, CRASHES - 1)
    assert node.run("end", how="nan").status is S.FAILED
    trip(node, 1)


def test_new_code_clears_it_though_the_old_forkserver_died_meanwhile(hanging: InProcess):
    """What is live before the new one comes does not decide what is new."""
    trip(hanging)
    assert isinstance(reload_amid_deaths(hanging, 1), Reloaded)
    assert hanging.run("end", how="nan").status is S.FAILED


def test_new_code_clears_it_though_both_forkservers_died(hanging: InProcess):
    """The reload has failed, and yet the one that takes their place has loaded what it was asked for."""
    trip(hanging)
    assert isinstance(reload_amid_deaths(hanging, 1, 2), Refused)
    assert hanging.run("end", how="nan").status is S.FAILED


def test_a_failed_reload_leaves_the_hold_over_the_next_death(hanging: InProcess):
    """The old code went on, and what takes its place is no new code."""
    trip(hanging)
    assert isinstance(reload_amid_deaths(hanging, 2), Refused)
    kill_generation(hanging, 1)
    waiting = hanging.submit("end", how="nan")
    assert hanging.run("noop").status is S.SUCCEEDED
    assert hanging.task(waiting).status is S.QUEUED
    assert "breaker" in shown(hanging, "end")


def test_after_a_release_it_takes_as_many_crashes_again(node: InProcess):
    """It does not trip at the first one."""
    trip(node)
    node.ask("unhold", "end", by="olga")
    wait_until(lambda: not shown(node, "end"), "its end in the store")
    crash(node, CRASHES - 1)
    assert node.run("end", how="nan").status is S.FAILED
    trip(node, 1)
