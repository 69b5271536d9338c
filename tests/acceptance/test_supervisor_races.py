"""Real supervisors and real operators that want different things of the same runs, also while their store restarts."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from node_bench import Answer, Enter, S, Supervised, key_of, wait_until
from pg_server import Server

from chong.store.model import Action

BUCKETS = ("--num-buckets", "64")
HALVES = ("0-31", "32-63")
LATE = "late_result"
UNREACHABLE = 3


@pytest.fixture
def database(own_database: str) -> str:
    """For `fleet` and `outside`, in place of the one that all tests share: its server may crash."""
    return own_database


Strike = Callable[..., None]


@pytest.fixture(params=["store stays", "store restarts"])
def strike(request: pytest.FixtureRequest, crashing: Server) -> Strike:
    """What happens to the store in the middle; it is over when all these places reach it again."""

    def restart(*places: Supervised) -> None:
        crashing.restart(signal.SIGQUIT)
        for place in places:
            place.wait_for_store()

    return restart if request.param == "store restarts" else lambda *_: None


def ask(place: Supervised, *words: str) -> Answer:
    """The command line, by an operator who tries again when the store was away."""
    while (answer := place.cli(*words)).code == UNREACHABLE:
        assert answer.err.count("\n") == 1 + answer.err.count(" was requested, which stands\n")
    return answer


def begun_until(node: Supervised, name: str, key: str | None = None) -> str:
    """A task that runs until `name` is touched."""
    return node.begun("until", key=key, path=str(node.root / name))


def check_trail(node: Supervised, task_id: str) -> None:
    """It began once, each step leads on from the one before, and none was made twice."""
    steps = node.store.history(task_id)
    assert [step.source for step in steps] == [None, *(step.target for step in steps[:-1])]
    assert set(Counter((step.source, step.target) for step in steps).values()) == {1}, steps
    assert steps[-1].target.is_final
    assert [entry["id"] for entry in node.journal("begin")].count(task_id) == 1


def notes(node: Supervised, task_id: str) -> Counter[str]:
    return Counter(note.kind for note in node.store.notes(task_id))


def test_operators_who_look_for_the_dead_harm_nobody_who_lives(fleet: Enter, outside: Supervised, strike: Strike):
    """Three judges and a doctor, all the time, while runs end, pause, go on and are stopped."""
    node = fleet("--node", "one", *BUCKETS, lease=6)
    ids = [begun_until(node, name) for name in ("ended", "paused", "stopped", "kept")]
    paused, stopped = ids[1:3]
    is_over = threading.Event()

    def look(*words: str) -> list[Answer]:
        answers = []
        while not is_over.is_set():
            answers.append(ask(outside, *words))
        return answers

    looks = [("reconcile", "--json")] * 3 + [("doctor", "--json")]
    with ThreadPoolExecutor(len(looks)) as threads:
        told = [threads.submit(look, *words) for words in looks]
        try:
            assert ask(node, "pause", paused, "--wait").code == 0
            (node.root / "ended").touch()
            strike(node)
            assert ask(node, "stop", stopped, "--wait").code == 0
            assert ask(node, "resume", paused, "--wait").code == 0
            (node.root / "paused").touch()
            (node.root / "kept").touch()
            ends = node.ends_of(ids)
        finally:
            is_over.set()
    *judged, looked = [future.result() for future in told]
    assert {task.id: task.status for task in ends} == {**dict.fromkeys(ids, S.SUCCEEDED), stopped: S.STOPPED}
    assert [answer for answers in judged for answer in answers if (answer.code, answer.json) != (0, [])] == []
    assert {answer.code for answer in looked} <= {0, 1}
    for task_id in ids:
        check_trail(node, task_id)
        assert LATE not in notes(node, task_id)


def test_a_thawed_node_and_its_judges_leave_one_outcome_each(fleet: Enter, outside: Supervised, strike: Strike):
    """Four judges, two for each half of the buckets; the node thaws when the first run is lost.

    What is lost is lost once, told by one judge, ended by the node, and its late end noted once. The rest goes on.
    """
    one = fleet("--node", "one", *BUCKETS)
    two = fleet("--node", "two", *BUCKETS)
    keys = [key_of(*map(int, half.split("-"))) for half in HALVES]
    ended = [begun_until(one, "ended", key) for key in keys]
    going = [begun_until(one, "going", key) for key in keys]
    deaf = [one.submit("deaf", key) for key in keys]
    for task_id in deaf:
        one.wait_for_word(task_id)
        one.wait_for(task_id, S.RUNNING)
    ids = [*ended, *going, *deaf]
    bystander = begun_until(two, "open")
    os.kill(one.supervisor.pid, signal.SIGSTOP)
    (one.root / "ended").touch()
    judges = [(*BUCKETS, "--owned-buckets", half, "reconcile", "--json") for half in (*HALVES, *HALVES)]
    with ThreadPoolExecutor(len(judges)) as threads:
        told = [threads.submit(ask, outside, *words) for words in judges]
        try:
            wait_until(lambda: any(lease.is_past for lease in one.store.leases(ids)), "a lease that is past")
            strike(one, two)
            wait_until(lambda: len(one.store.leases(ids)) < len(ids), "the first judgement")
        finally:
            os.kill(one.supervisor.pid, signal.SIGCONT)
        answers = [future.result() for future in told]
    judged = Counter(row["id"] for answer in answers for row in answer.json)
    wait_until(lambda: {one.task(task_id).status for task_id in ended} <= {S.SUCCEEDED, S.LOST}, "the ends")
    (one.root / "going").touch()
    assert ask(two, "stop", *deaf, "--wait").code in {0, 1}  # it says so where the task is lost
    ends = {task.id: task.status for task in one.ends_of(ids)}
    wait_until(lambda: not one.workers(), "the end of all runs of the thawed node")
    lost = {task_id for task_id, status in ends.items() if status is S.LOST}
    assert judged == dict.fromkeys(lost, 1)
    assert lost
    assert all(ends[task_id] is (S.STOPPED if task_id in deaf else S.SUCCEEDED) for task_id in set(ids) - lost)
    for task_id in ids:
        if task_id in lost:
            one.wait_for_note(task_id, LATE)
        check_trail(one, task_id)
        assert notes(one, task_id)[LATE] == (task_id in lost)
    assert one.store.leases(ids) == []
    assert one.end_of(one.submit("noop")).status is S.SUCCEEDED
    (two.root / "open").touch()
    assert two.end_of(bystander).status is S.SUCCEEDED


def test_what_four_operators_ask_at_once_has_one_effect(fleet: Enter, outside: Supervised, strike: Strike):
    """Stops of one task; a pause, a resume and stops of another: the node finds all of them, and each is answered."""
    node = fleet("--node", "one", *BUCKETS, lease=30)
    fleet("--node", "two", *BUCKETS)
    stopped, torn = node.begun("hold"), node.begun("hold")
    names = ("ann", "bob", "cyd", "dan")
    words = ("pause", "resume", "stop", "stop")
    asks = [("stop", stopped, "--wait", "--as", name) for name in names]
    asks += [(word, torn, "--wait", "--as", name) for word, name in zip(words, names, strict=True)]
    os.kill(node.supervisor.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(len(asks)) as threads:
        told = [threads.submit(ask, outside, *words) for words in asks]
        try:
            for task_id in (stopped, torn):
                wait_until(lambda: len(node.store.commands(task_id)) == len(names), "all requests")  # noqa: B023
        finally:
            os.kill(node.supervisor.pid, signal.SIGCONT)
        strike(node)
        answers = [future.result() for future in told]
    for (word, *_), answer in zip(asks, answers, strict=True):
        # Who asked anew, because the store had gone before it said that the first request was in, may come late.
        is_over = "it is stopped, nothing is left to stop" in answer.err
        assert answer.code == 0 or (answer.code == 1 and (word != "stop" or is_over)), answer
        assert f"{answer.out}{answer.err}".count("\n") == 1
    for task_id in (stopped, torn):
        task, commands = node.end_of(task_id), node.store.commands(task_id)
        first = next(command for command in commands if command.action is Action.STOP)
        assert (task.status, task.stop.by) == (S.STOPPED, first.issued_by)
        check_trail(node, task_id)
        assert sorted(command.issued_by for command in commands) == sorted(names)
        assert all(command.finished_at and command.outcome for command in commands)
