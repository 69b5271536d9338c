"""submit, stop, pause and resume: what is asked, what is refused, and what waiting says."""

import json
import re
import socket
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cli_world import S, World
from waiting import wait_until

from chong.cli.request import effect_of
from chong.store.errors import ConfigurationError, Refused, StoreUnavailable
from chong.store.model import Action, Command, Failure, FailureKind
from chong.store.query import TaskQuery
from chong.store.sqlite import SqliteTaskStore
from chong.supervisor.client import Client, refusal_of
from chong.supervisor.control_client import SupervisorUnreachable, submit_over
from chong.supervisor.submission import Submission
from chong.worker.unix import LINE_LIMIT


class FakeSupervisor:
    """Answers each connection with the next of `answers`: a JSON value, bytes as they are, None hangs up."""

    def __init__(self, path: Path, *answers: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.requests: list[dict] = []
        self._answers = answers
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rwb") as lines:
                self.requests.append(json.loads(lines.readline()))
                said = answer(self.requests[-1]) if callable(answer) else answer
                if said is not None:
                    lines.write(said if isinstance(said, bytes) else json.dumps(said).encode() + b"\n")
        self._socket.close()


def accepted(request: dict) -> dict:
    return {"ok": True, "task": {"id": request["id"], "name": request["name"], "status": "queued"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


def test_submit_over_sends_one_line_and_returns_the_task(path: Path):
    """The line is the submission and its operation."""
    server = FakeSupervisor(path, accepted)
    submission = Submission(name="n", key="ключ", params={"a": 1})
    assert submit_over(path, submission)["id"] == submission.id
    assert server.requests == [
        {"op": "submit", "name": "n", "key": "ключ", "params": {"a": 1}, "unique_key": None, "trigger": "manual",
         "id": submission.id}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "error"),
    [("refused", Refused), ("configuration", ConfigurationError), ("unavailable", StoreUnavailable), ("odd", Refused)],
)
def test_submit_over_raises_what_was_answered(path: Path, code, error):
    """Each code of the protocol is an error of the tree."""
    FakeSupervisor(path, {"ok": False, "code": code, "error": "because"})
    with pytest.raises(error, match="because"):
        submit_over(path, Submission(name="n"))


@pytest.mark.parametrize("answer", [b"junk\n", b"[]\n", b'{"ok":true}\n', b'{"ok":true,"task":3}\n'])
def test_submit_over_refuses_junk(path: Path, answer):
    """An answer that is no answer is told as such."""
    FakeSupervisor(path, answer)
    with pytest.raises(Refused, match="not understood"):
        submit_over(path, Submission(name="n"))


def test_a_lost_answer_is_asked_for_again(path: Path):
    """With the same id, so that nothing is accepted twice; a second loss says that the outcome is unknown."""
    server = FakeSupervisor(path, None, accepted, b'{"ok":', None)
    submission = Submission(name="n")
    assert submit_over(path, submission)["id"] == submission.id
    assert [request["id"] for request in server.requests] == [submission.id] * 2
    with pytest.raises(SupervisorUnreachable, match=f"whether it accepted task {submission.id} is unknown"):
        submit_over(path, submission)


def test_a_silent_supervisor_is_given_up(path: Path):
    """It accepted the connection and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(SupervisorUnreachable, match="did not answer"):
            submit_over(path, Submission(name="n"), timeout=0.1)


def test_a_long_socket_path_is_reached(tmp_path: Path, monkeypatch):
    """More than the 107 bytes that an address holds."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    server = FakeSupervisor(Path("control.sock"), accepted)
    assert submit_over(deep / "control.sock", Submission(name="n"))["name"] == "n"
    assert len(server.requests) == 1


def test_the_largest_submission_fits_a_line(path: Path):
    """Its bounds are counted as the line is written, so a whole one always passes."""
    FakeSupervisor(path, accepted)
    submission = Submission(name="字" * 200, key="字" * 500, params={"a": "字" * 87_000}, unique_key="字" * 500)
    assert len(json.dumps(submission.params, ensure_ascii=False).encode()) < LINE_LIMIT
    assert submit_over(path, submission)["id"] == submission.id


def test_submit_prints_the_id(world: World, chong):
    """What is said with -p goes as it is, beside --params: only the node knows what it stands for."""
    server = FakeSupervisor(world.state / "run" / "control.sock", accepted, accepted)
    args = ["-p", "since=2024-01-01", "-p", "n=3", "-p", "x=NaN", "-p", "e=a=b", "-p", 'l=[1,"2"]']
    answer = chong("submit", "n", "--key", "k", *args, "--params", '{"n": 1, "o": {}}', "--unique", "u")
    assert (answer.code, answer.out) == (0, server.requests[0]["id"] + "\n")
    assert server.requests[0]["params"] == {"n": 1, "o": {}}
    assert server.requests[0]["texts"] == {
        "n": "3", "since": "2024-01-01", "x": "NaN", "e": "a=b", "l": '[1,"2"]'
    }  # fmt: skip
    assert (server.requests[0]["key"], server.requests[0]["unique_key"]) == ("k", "u")
    assert set(chong("submit", "n", "--json").json) == {"id", "name", "status"}


def test_submit_without_a_supervisor(world: World, chong):
    """Exit 1, and the line says which node was meant, where, and what to look at."""
    answer = chong("--node", "node-a", "submit", "n")
    where = world.state / "run" / "control.sock"
    line = f"chong: no supervisor of node node-a answers at {where}; is chong-supervisor running on this machine?\n"
    assert (answer.code, answer.out, answer.err.splitlines(keepends=True)[0]) == (1, "", line)


@pytest.mark.parametrize("words", ["submit n", "hold n", "unhold n", "reload"])
@pytest.mark.parametrize(
    ("node", "hint"),
    [
        ("nod-b", "no node is called 'nod-b'; did you mean node-b; chong nodes shows them"),
        ("other", "no node is called 'other'; there are node-a, node-b, node-c; chong nodes shows them"),
        ("node-b", "node node-b is down, it was last on host-1; chong nodes shows which are live"),
        ("node-c", "node node-c is live on host-1, and this is HERE; what is asked of it is asked there"),
    ],
)
def test_a_node_that_does_not_answer_is_told_with_what_the_store_knows_of_it(world: World, chong, words, node, hint):
    """In a line of its own, below the error; a store that does not answer has no hint."""
    world.add_node("node-b", None)
    world.store.end_term("node-b.1")
    world.add_node("node-c", None)
    answer = chong("--node", node, *words.split())
    error, told = answer.err.splitlines()
    assert (answer.code, answer.out, told) == (1, "", f"chong: {hint.replace('HERE', socket.gethostname())}")
    assert error.endswith("; is chong-supervisor running on this machine?")
    db = str(world.state / "none.db")
    assert chong("--node", node, "--db", db, *words.split()).err == f"{error}\n"


@pytest.mark.parametrize(("status", "code"), [(S.SUCCEEDED, 0), (S.FAILED, 1), (S.STOPPED, 1)])
def test_submit_waits_for_success(world: World, chong, another_look, status, code):
    """Exit 0 says that it succeeded, nothing else does."""

    def run_it(request: dict) -> dict:
        threading.Thread(target=end_it, args=(request,), daemon=True).start()
        return accepted(request)

    def end_it(request: dict) -> None:
        another_look()
        world.add(request["name"], status, id=request["id"])

    FakeSupervisor(world.state / "run" / "control.sock", run_it)
    answer = chong("submit", "n", "--wait", "--json")
    assert (answer.code, answer.json["status"]) == (code, status)


def test_submit_waiting_tells_the_failure(world: World, chong):
    """The id is on stdout for scripts, the cause on stderr for people."""

    def run_it(request: dict) -> dict:
        world.add(request["name"], S.FAILED, id=request["id"])
        return accepted(request)

    server = FakeSupervisor(world.state / "run" / "control.sock", run_it)
    answer = chong("submit", "n", "--wait")
    task_id = server.requests[0]["id"]
    line = f"chong: task {task_id} ended as failed, exception ValueError: no such page\n"
    assert (answer.code, answer.out, answer.err) == (1, task_id + "\n", line)


def test_stop_is_requested(world: World, chong):
    """Without --wait: accepted, and the state as it is now; the request is signed and reasoned."""
    task = world.add()
    answer = chong("stop", task.id, "--reason", "too slow", "--as", "olga")
    assert (answer.code, answer.out) == (0, f"{task.id[-8:]} billing.sync: stop requested, now running\n")
    command = world.store.commands(task.id)[0]
    assert (command.action, command.issued_by, command.reason) == (Action.STOP, "olga", "too slow")
    assert chong("stop", task.id).code == 0
    assert "@" in world.store.commands(task.id)[1].issued_by


def test_a_node_that_is_down_is_named(world: World, chong):
    """It has said so itself; nobody has to wait until its silence is long enough."""
    world.add_node("node-b", None)
    world.store.end_term("node-b.1")
    task = world.add(node="node-b")
    assert "; node node-b is down and acts on it when it is back" in chong("stop", task.id).out
    assert re.search(r"node-b +down", chong("nodes").out)


def test_a_silent_node_is_named(world: World, chong):
    """The request waits for a node that is down, and whoever asks should know."""
    with world.ago(60):
        world.add_node("node-b", None)
    task = world.add(node="node-b")
    assert re.search(
        r"; node node-b has been silent for \S+ and acts on it when it is back", chong("stop", task.id).out
    )


def test_a_pending_request_says_who_will_end_it(world: World, chong):
    """Its node, when it is back; or whoever judges the run of a node that was forgotten. Waiting says so as well."""
    with world.ago(60):
        world.add_node("node-b", None)
    task = world.add(node="node-b")
    told = chong("stop", task.id, "--wait", "--timeout", "0.1s")
    assert (told.code, told.out) == (1, "")
    asked, late = told.err.splitlines()
    assert asked.endswith("and acts on it when it is back")
    assert late.endswith("stop not in effect after 0.1s, now running; the request stands")
    assert "not yet taken up, the node acts on it when it is back" in chong("show", task.id).out
    assert chong("forget", "node-b", "--yes").code == 0
    assert chong("stop", task.id).out.endswith(
        "; node node-b was forgotten: chong reconcile judges the run, and closes the request\n"
    )
    assert "not yet taken up, chong reconcile judges the run and closes it" in chong("show", task.id).out


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("status", [S.SUCCEEDED, S.LOST, S.CANCELLED])
def test_what_has_ended_cannot_be_asked(world: World, chong, action, status):
    """Exit 1 with a clear line, and nothing is stored for it."""
    task = world.add(status=status)
    words = ["pause", "--freeze"] if action is Action.FREEZE else [action.value]
    answer = chong(*words, task.id)
    line = f"chong: task {task.id} (billing.sync) has ended: it is {status}, nothing is left to {action}\n"
    assert (answer.code, answer.out, answer.err) == (1, "", line)
    assert world.store.commands(task.id) == []


@pytest.mark.parametrize(
    ("action", "refusing"),
    [
        (Action.STOP, set()),
        (Action.PAUSE, {S.QUEUED, S.RETRYING, S.STOPPING}),
        (Action.FREEZE, {S.QUEUED, S.RETRYING, S.STOPPING}),
        (Action.RESUME, {S.QUEUED, S.RETRYING, S.STOPPING}),
    ],
)
def test_which_states_refuse(world: World, action, refusing):
    """A stop is taken in every open state; a pause and its undoing need an attempt that is to go on."""
    task = world.add()
    refused = {status for status in S if refusal_of(action, replace(task, status=status))}
    assert refused == refusing | {status for status in S if status.is_final}


def test_one_refusal_does_not_hold_up_the_rest(world: World, chong):
    """Everything that can be asked is, and the exit code tells that something could not."""
    task, done = world.add(), world.add(status=S.SUCCEEDED)
    answer = chong("stop", done.id, task.id)
    assert (answer.code, len(answer.lines), len(answer.err.splitlines())) == (1, 1, 1)
    assert len(world.store.commands(task.id)) == 1


def test_filters_choose_what_can_be_asked(world: World, chong):
    """Ended tasks that match are no mistake; neither is one task asked twice."""
    first, second = world.add(bucket=3, bucket_key="k"), world.add(status=S.QUEUED, bucket=3, bucket_key="l")
    world.add(status=S.SUCCEEDED, bucket=3, bucket_key="m")
    world.add(bucket=4, bucket_key="n")
    assert len(chong("pause", "--bucket", "3").lines) == 1
    assert len(chong("stop", "--bucket", "3").lines) == 2
    assert [command.action for command in world.store.commands(first.id)] == [Action.PAUSE, Action.STOP]
    assert len(chong("stop", second.id, second.id[-7:]).lines) == 1


class Node(threading.Thread):
    """Takes the first command of a task, then does with it what `act` says."""

    def __init__(self, world: World, act) -> None:
        super().__init__(daemon=True)
        self.world, self.act = world, act
        self.start()

    def run(self) -> None:
        self.act(wait_until(self._claim, "a command")[0])

    def _claim(self) -> list[Command]:
        return self.world.store.claim_commands("node-a", "node-a.1", lease=timedelta(seconds=30))


@pytest.mark.parametrize(
    ("words", "status", "frozen", "said"),
    [
        (["pause"], S.STARTING, False, "now starting; it pauses when it has started, at its next checkpoint"),
        (["pause"], S.RUNNING, False, "now running; it pauses at its next checkpoint"),
        (["pause"], S.PAUSED, False, "now paused; it is paused already"),
        (["pause"], S.PAUSED, True, "now paused (frozen); it is paused already"),
        (["pause", "--freeze"], S.STARTING, False, "now starting; it is frozen when it has started"),
        (["pause", "--freeze"], S.PAUSED, True, "now paused (frozen); it is frozen already"),
        (["pause", "--freeze"], S.PAUSED, False, "now paused"),
        (["resume"], S.RUNNING, False, "now running; it is not paused"),
        (["resume"], S.PAUSED, True, "now paused (frozen)"),
        (["stop"], S.PAUSED, True, "now paused (frozen); it is thawed first, so that it can clean up"),
        (["stop"], S.PAUSED, False, "now paused"),
        (["stop"], S.STOPPING, False, "now stopping; it is being stopped already"),
        (["stop"], S.QUEUED, False, "now queued"),
    ],
)
def test_an_answer_says_what_a_request_comes_to(world: World, chong, words, status, frozen, said):
    """Where the state alone would leave a doubt; in one line."""
    if frozen:
        task = world.move(world.move(world.add(), S.PAUSING), status, flags=frozenset({"frozen"}))
    else:
        task = world.add(status=status)
    answer = chong(*words, task.id)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(f" requested, {said}\n")


@pytest.mark.parametrize(
    ("action", "status", "effect"),
    [
        (Action.PAUSE, S.RETRYING, (False, "pause overtaken, now retrying, exception ValueError: no such page")),
        (Action.FREEZE, S.STOPPING, (True, "stopping, asked by olga, nothing had to change")),
        (Action.RESUME, S.RETRYING, (True, "retrying, asked by olga, nothing had to change")),
        (Action.PAUSE, S.PAUSING, None),
        (Action.STOP, S.STOPPING, None),
    ],
)
def test_what_overtakes_a_request_ends_the_wait_for_it(world: World, action, status, effect):
    """A pause of an attempt that is over never comes; a freeze and a resume did what they were to do."""
    failure = {"failure": Failure(FailureKind.EXCEPTION, "ValueError", "no such page")} if status.is_waiting else {}
    task = world.move(world.add(), status, **failure)
    asked = Command(
        id="c", task_id=task.id, action=action, issued_by="olga", issued_at=task.created_at,
        finished_at=task.created_at, outcome="done",
    )  # fmt: skip
    found = effect_of(asked, task, [])
    assert (found and (found.came_about, found.text)) == effect


def test_a_wait_in_vain_says_what_it_hangs_on(world: World, chong):
    """A pause on a checkpoint, a stop on its graces."""
    pausing, stopping = (world.move(world.add(), status) for status in (S.PAUSING, S.STOPPING))
    for words, said in (
        (["pause", pausing.id], "now pausing: it has met no checkpoint yet; --freeze would not wait for one"),
        (["stop", stopping.id], "now stopping; signals end it when its graces are over"),
    ):
        answer = chong(*words, "--wait", "--timeout", "100ms")
        assert (answer.code, answer.err.count("\n")) == (1, 1)
        assert answer.err.endswith(f" not in effect after 0.1s, {said}\n")


def test_waiting_for_a_stop(world: World, chong, another_look):
    """It is in effect when the task has ended."""
    task = world.add()

    def act(_):
        stopping = world.move(task, S.STOPPING)
        another_look()
        world.move(stopping, S.STOPPED, forced=True)

    Node(world, act)
    answer = chong("stop", task.id, "--wait", "--timeout", "20s")
    assert answer.code == 0
    assert ": stopped, forced, asked by olga@desk: too slow, " in answer.out
    assert ", effective after " in answer.out


@pytest.mark.parametrize(
    ("action", "status", "code"), [("pause", S.SUCCEEDED, 1), ("stop", S.SUCCEEDED, 0), ("stop", S.LOST, 1)]
)
def test_waiting_ends_with_the_task(world: World, chong, action, status, code):
    """A pause that the end overtook failed; a stop is content with any end that is known."""
    task = world.add()
    Node(world, lambda _: world.move(task, status))
    answer = chong(action, task.id, "--wait", "--timeout", "20s")
    assert (answer.code, str(status) in answer.out + answer.err) == (code, True)


def test_waiting_tells_a_refusal_of_the_node(world: World, chong):
    """The node has the last word."""
    task = world.add()
    Node(world, lambda command: world.store.complete_command(command.id, "refused", "not now"))
    answer = chong("pause", task.id, "--wait", "--timeout", "20s")
    assert (answer.code, answer.err) == (1, f"chong: {task.id[-8:]} billing.sync: pause refused: not now\n")


def test_a_store_that_goes_after_the_request_is_waited_for_or_told(world: World, chong, monkeypatch):
    """What was asked for stands; who waits for it goes on waiting."""
    task, nodes, failures = world.add(), SqliteTaskStore.nodes, iter([True, False])

    def away_once(store):
        if next(failures, True):
            raise StoreUnavailable("store: away")
        return nodes(store)

    monkeypatch.setattr(SqliteTaskStore, "nodes", away_once)
    answer = chong("stop", task.id, "--wait", "--timeout", "200ms")
    assert (answer.code, answer.err.count("\n"), len(world.store.commands(task.id))) == (1, 1, 1)
    assert "not in effect after 0.2s" in answer.err
    answer = chong("stop", task.id)
    said = f"chong: {task.id[-8:]}: stop was requested, which stands\nchong: store: away\n"
    assert (answer.code, answer.out, answer.err, len(world.store.commands(task.id))) == (3, "", said, 2)


def test_waiting_has_an_end(world: World, chong):
    """Exit 1, and where the task stands."""
    task = world.add()
    answer = chong("stop", task.id, "--wait", "--timeout", "200ms")
    line = f"chong: {task.id[-8:]} billing.sync: stop not in effect after 0.2s, now running; the request stands\n"
    assert (answer.code, answer.out, answer.err) == (1, "", line)


def test_client_looks_through_its_filter(world: World):
    """Owned buckets limit what a query shows; requests go to any task."""
    ours, theirs = world.add(bucket=3, bucket_key="k"), world.add(bucket=9, bucket_key="l")
    client = Client(world.store, issued_by="test", owned_buckets=range(4))
    assert [task.id for task in client.query(TaskQuery())] == [ours.id]
    assert client.query(TaskQuery(buckets=frozenset({9}))) == []
    assert client.get(theirs.id) == world.store.get(theirs.id)
    assert client.stop(theirs.id).action is Action.STOP
    with pytest.raises(Refused, match="no task has the id"):
        client.resume(Submission(name="x").id)
    with pytest.raises(ConfigurationError, match="issued by"):
        Client(world.store, issued_by="a\nb")


def test_a_finished_command_needs_its_state(world: World, chong, another_look):
    """A resume that only cancelled an open pause is done when the command is."""
    task = world.add()

    def act(command):
        another_look()
        world.store.complete_command(command.id, "done")

    Node(world, act)
    assert chong("resume", task.id, "--wait", "--timeout", "20s").code == 0
    assert world.store.commands(task.id)[0].outcome == "done"
