"""How the attempts of a task ended, what an operator has found out of a lost one, and for when a task waits."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cli_world import TERM, S, World, moved
from test_cli_act import FakeSupervisor, accepted

from chong.store.model import AttemptEnd, LeaseGrant
from chong.supervisor.submission import from_json

KILLED = AttemptEnd(attempt=1, exit_signal=9, kind="crashed", cause="SIGKILL", cpu_seconds=1.25, max_rss_bytes=12 << 20)
RAISED = AttemptEnd(attempt=2, exit_code=1, forced=True, kind="exception", cause="ValueError")


def end(world: World, task, status, ended, **facts):
    after, step = moved(task, status, **facts)
    world.store.save(after, [replace(step, ended=ended, reason="why")], expect_version=task.version)
    return after


@pytest.fixture
def twice(world: World):
    """A task whose second attempt was its last."""
    return end(world, world.start(end(world, world.add(), S.RETRYING, KILLED)), S.FAILED, RAISED)


class TestAttempts:
    def test_show_lists_them_with_their_ends(self, world: World, chong, twice):
        """Exit, cause, length and use of each, as far as it is known; JSON has the names of the store."""
        text = chong("show", twice.id).out
        first = r"1 +retrying, crashed SIGKILL, SIGKILL, ran \d\.\ds, 1\.2 s CPU, 12\.0 MiB at most\n"
        assert re.search(first, text), text
        assert re.search(r"2 +failed, exception ValueError, exit code 1, forced, ran \d\.\ds\n", text), text
        first, second = chong("show", twice.id, "--json").json["attempts"]
        assert (first["attempt"], first["status"], first["exit_signal"], first["exit_code"]) == (1, "retrying", 9, None)
        assert (first["kind"], first["cause"], first["cpu_seconds"], first["max_rss_bytes"], first["reason"]) == (
            "crashed",
            "SIGKILL",
            1.25,
            12 << 20,
            "why",
        )
        assert (second["attempt"], second["status"], second["forced"], second["cpu_seconds"]) == (
            2,
            "failed",
            True,
            None,
        )
        assert 0 <= second["seconds"] < 60
        assert second["started_at"] <= second["ended_at"]

    def test_history_says_how_where_a_change_ends_one(self, world: World, chong, twice):
        """And has no such column where none does."""
        header, *lines = chong("history", twice.id).lines
        assert header.endswith("ATTEMPT")
        assert [line for line in lines if "1: crashed SIGKILL, SIGKILL, ran" in line and " retrying " in line]
        rows = chong("history", twice.id, "--json").json
        assert [row["ended"] and row["ended"]["attempt"] for row in rows] == [None, None, None, 1, None, None, 2]
        assert "ATTEMPT" not in chong("history", world.add().id).lines[0]

    def test_what_is_not_known_of_one_is_left_out(self, world: World, chong):
        """An older version has stored no ends; a start that came to nothing has run nothing; the last one runs."""
        task = world.move(world.add(), S.RETRYING)
        after, step = moved(task, S.STARTING)
        world.store.save(after, [step], expect_version=task.version, lease=LeaseGrant(TERM, timedelta(seconds=30)))
        task = world.start(world.move(after, S.QUEUED, unstarted=1))
        shown = re.findall(r"^ +(\d) +(\w+)(.*)$", chong("show", task.id).out, re.MULTILINE)
        assert [(number, status, re.sub(r"[\d.]+s", "0s", rest)) for number, status, rest in shown] == [
            ("1", "retrying", ", ran 0s"),
            ("2", "queued", ", never started"),
            ("3", "running", ""),
        ]


class TestResolve:
    def test_a_verdict_stands_beside_a_lost_task(self, world: World, chong):
        """Wherever the task is shown; the state stays, and a second verdict takes the first one's place."""
        task, other = world.add(status=S.LOST), world.add(status=S.LOST)
        told = chong("resolve", task.id, "--as", "failed", "--by", "ann", "--reason", "no file")
        assert (told.code, told.out, told.err) == (0, f"{task.id[-8:]} billing.sync: lost (resolved: failed)\n", "")
        told = chong("resolve", task.id[-8:], "--as", "succeeded", "--by", "olga", "--json").json
        assert (told["id"], told["status"], told["resolved"]["verdict"]) == (task.id, "lost", "succeeded")
        rows = {row["id"]: row for row in chong("ps", "--all", "--json").json}
        found = rows[task.id]["resolved"]
        assert (found["verdict"], found["by"], found["reason"]) == ("succeeded", "olga", None)
        assert (rows[task.id]["status"], rows[other.id]["resolved"]) == ("lost", None)
        lines = chong("ps", "--all").lines
        assert [line for line in lines if task.id[-8:] in line and "lost (resolved: succeeded)" in line]
        assert "status  lost (resolved: succeeded)" in re.sub(r"status +", "status  ", chong("show", task.id).out)
        assert [line for line in chong("show", task.id).lines if re.match(r" +by +olga", line)]
        notes = [line for line in chong("history", task.id).lines if " resolved " in line]
        assert ["ann" in notes[0], "failed: no file" in notes[0], "olga" in notes[1]] == [True] * 3
        assert world.store.get(task.id) == replace(task, lease_owner=None)

    @pytest.mark.parametrize("status", [S.RUNNING, S.FAILED, S.QUEUED])
    def test_only_of_a_lost_task_nobody_knows(self, world: World, chong, status):
        """One line, and no note."""
        task = world.add(status=status)
        told = chong("resolve", task.id, "--as", "failed")
        said = f"chong: task {task.id}: expected a lost one, got one that is {status}\n"
        assert (told.code, told.out, told.err) == (1, "", said)
        assert world.store.notes(task.id) == []

    def test_a_verdict_is_one_of_two_words(self, world: World, chong):
        """The line names them, or the nearest."""
        task = world.add(status=S.LOST)
        for said, expected in (("succeded", "did you mean succeeded?"), ("x", "expected succeeded or failed")):
            told = chong("resolve", task.id, "--as", said)
            assert told.code == 2
            assert f"unknown verdict {said!r}; {expected}" in told.err


class TestSubmit:
    def sent(self, world: World, *words):
        server = FakeSupervisor(world.state / "run" / "control.sock", accepted)
        answer = world.run("submit", "n", *words, env={"TZ": "IST-5:30"})
        assert answer.code == 0, answer.err
        server.requests[0].pop("op")
        (world.state / "run" / "control.sock").unlink()
        return from_json(server.requests[0]), answer.err

    @pytest.mark.parametrize(
        ("words", "due"),
        [
            (("--at", "2035-01-31T18:00+01:00"), datetime(2035, 1, 31, 17, tzinfo=UTC)),
            (("--at", "2035-01-31T18:00:30Z"), datetime(2035, 1, 31, 18, 0, 30, tzinfo=UTC)),
            (("--at", "2035-01-31T18:00"), datetime(2035, 1, 31, 12, 30, tzinfo=UTC)),
        ],
    )
    def test_a_time_is_local_unless_it_says_its_zone(self, world: World, words, due):
        """As everybody's clock on the wall."""
        submission, err = self.sent(world, *words)
        assert (submission.due_at, err) == (due, "")

    def test_everything_else_is_handed_over(self, world: World):
        """And what is not said is not."""
        before = datetime.now(UTC)
        words = ("--in", "1h30m", "--priority", "-3", "--retries", "0", "--run-timeout", "90s")
        submission, _ = self.sent(world, *words)
        assert (submission.priority, submission.retries, submission.run_timeout) == (-3, 0, 90.0)
        wait = submission.due_at - before
        assert timedelta(minutes=90) <= wait < timedelta(minutes=91)
        plain, _ = self.sent(world)
        assert (plain.due_at, plain.priority, plain.retries, plain.run_timeout) == (None, None, None, None)

    def test_a_time_that_is_past_means_now_and_is_told(self, world: World):
        """It is accepted all the same."""
        submission, err = self.sent(world, "--at", "2020-01-01T00:00Z")
        assert submission.due_at is None
        assert err == "chong: --at: 2020-01-01 00:00:00.000Z is past: the task runs at once\n"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--at", "tomorrow"), "expected an ISO 8601 time like"),
            (("--at", "0001-01-01T00:00+14:00"), "expected an ISO 8601 time like"),
            (("--in", "soon"), "expected a length of time like"),
            (("--in", "-5m"), "expected a length of time like"),
            (("--in", "9999999999999d"), "--in: expected at most some years"),
            (("--at", "2035-01-01", "--in", "5m"), "expected either --at or --in, got both"),
            (("--priority", "x"), "expected a whole number, got 'x'"),
            (("--retries", "many"), "expected a whole number, got 'many'"),
            (("--retries", "-1"), "retries: expected a whole number from 0 to 1000000, got -1"),
            (("--run-timeout", "0"), "run_timeout: expected seconds above 0"),
        ],
    )
    def test_nonsense_is_refused_in_one_line(self, world: World, chong, words, said):
        """Before anybody is asked."""
        answer = chong("submit", "n", *words)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err.splitlines()[-1]


def test_what_waits_for_its_time_says_so(world: World, chong):
    """In the list, and with the moment in `show`; a retry too; what runs, or is over, waits for nothing."""
    due = datetime.now(UTC) + timedelta(hours=3, seconds=50)
    waiting = world.add(status=S.QUEUED, due_at=due)
    retrying = world.add(status=S.RETRYING, due_at=due)
    over = world.add(status=S.CANCELLED, due_at=due)
    past = world.add(status=S.QUEUED, due_at=datetime.now(UTC) - timedelta(seconds=1))
    lines = {task.id: next(line for line in chong("ps", "--all").lines if task.id[-8:] in line)
             for task in (waiting, retrying, over, past)}  # fmt: skip
    assert "queued (due in 3h00m)" in lines[waiting.id]
    assert "retrying (due in 3h00m)" in lines[retrying.id]
    assert "due" not in lines[over.id] + lines[past.id]
    text = chong("show", waiting.id).out
    assert re.search(r"due +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z \(due in 3h00m\)", text), text
    row = next(row for row in chong("ps", "--json").json if row["id"] == waiting.id)
    assert row["due_at"] == due.isoformat().replace("+00:00", "Z")
