"""What a client makes of answers, lost answers and silence; no socket, and no time passes."""

import json
import pickle
from datetime import datetime, timedelta, timezone

import pytest

from chong.store.ids import is_id
from chong.supervisor.submission import from_json
from chong.worker import client_errors as errors
from chong.worker import talk as talk_module
from chong.worker.exchange import AnswerLateError, AnswerLostError
from chong.worker.ids import new_id
from chong.worker.outcome import Outcome
from chong.worker.talk import PATIENCE, PAUSE, Talk

LOST = AnswerLostError("reset")
TASK = {"id": "1", "name": "a.b", "status": "succeeded", "outcome": 7}


def said(**content):
    return json.dumps({"ok": True, **content}).encode() + b"\n"


@pytest.fixture
def clock(monkeypatch):
    """Stands still but for the pauses of the conversation, and what the test adds."""
    moments = [100.0]
    monkeypatch.setattr(talk_module, "monotonic", lambda: moments[0])
    return moments


@pytest.fixture
def talk(tmp_path, clock):
    return Talk(tmp_path / "control.sock", "me@here")


def carry_out(conversation, came, clock):
    """Every step that sends gets the next of `came`, or what a function of the turn says; the result, and the lines."""
    came = iter(came)
    lines = []
    got = None
    try:
        while True:
            step = conversation.send(got)
            if step.line is None:
                clock[0] += step.seconds
                got = None
            else:
                lines.append(json.loads(step.line))
                got = next(came)
    except StopIteration as end:
        return end.value, lines


def test_all_that_a_submission_may_say_goes_to_the_node(talk, clock):
    """Under the node's own names, and as what it reads there."""
    due = datetime(2030, 1, 31, 18, tzinfo=timezone(timedelta(hours=1)))
    wish = {"key": "k", "due_at": due, "priority": 3, "retries": 0, "run_timeout": 1.5, "unique": None}
    task_id, lines = carry_out(talk.submit("a.b", 30, **wish), iter([said(task={})]), clock)
    (request,) = lines
    assert request.pop("op") == "submit"
    submission = from_json(request)
    assert (submission.id, submission.key, submission.due_at, submission.unique_key) == (task_id, "k", due, None)
    assert (submission.priority, submission.retries, submission.run_timeout) == (3, 0, 1.5)


class TestAnswers:
    def test_an_answer_that_was_lost_is_asked_for_with_the_same_id(self, talk, clock):
        """Also while nobody listens for a moment, as when a node is started anew."""
        came = [LOST, FileNotFoundError(), ConnectionRefusedError(), said(task=TASK)]
        task_id, lines = carry_out(talk.submit("a.b", 30, params={"n": 1}, unique="u"), came, clock)
        assert len(lines) == 4
        assert {line["id"] for line in lines} == {task_id}
        assert lines[0] == {
            "op": "submit", "name": "a.b", "id": task_id, "trigger": "event", "params": {"n": 1}, "unique_key": "u"
        }  # fmt: skip
        assert clock[0] == pytest.approx(100 + 3 * PAUSE)

    def test_nobody_is_waited_for_who_was_not_there(self, talk, clock):
        """One try, and the text names the socket."""
        with pytest.raises(errors.NodeUnreachable, match=r"no supervisor answers at .*control\.sock"):
            carry_out(talk.submit("a.b", 30), [ConnectionRefusedError()], clock)

    def test_one_that_does_not_come_back_is_given_up(self, talk, clock):
        """After half a minute, or as soon as the time is over; the text says what is unknown, and how to go on."""
        for timeout, most in ((5, 5), (None, PATIENCE)):
            with pytest.raises(errors.NodeUnreachable, match="has gone away"):
                carry_out(talk.wait("1", timeout), [LOST] * 10_000, clock)
            assert clock[0] - 100 == pytest.approx(most, abs=2 * PAUSE)
            clock[0] = 100.0
        with pytest.raises(errors.NodeUnreachable, match="to submit it again with id='x' is safe"):
            carry_out(talk.submit("a.b", 0.3, id="x"), [LOST] * 100, clock)

    def test_patience_begins_anew_after_a_long_calm(self, talk, clock):
        """Who waits for a week may see several restarts."""

        def came():
            for _ in range(5):
                yield from [ConnectionResetError(), ConnectionResetError()]
                clock[0] += 3600
                yield LOST
            yield said(task=TASK)

        lost_first = iter([LOST])
        outcome, _ = carry_out(talk.wait("1", None), (*lost_first, *came()), clock)
        assert outcome.result == 7

    def test_silence_within_the_time_is_told_by_what_was_asked(self, talk, clock):
        """A wait that is not over is no fault of the node."""
        late = AnswerLateError("timed out")
        with pytest.raises(errors.NotEnded, match="task 1: expected its end within 5 s"):
            carry_out(talk.wait("1", 5), [late], clock)
        with pytest.raises(errors.NodeUnreachable, match="did not answer within 5 s: whether it accepted task"):
            carry_out(talk.submit("a.b", 5), [late], clock)

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            ({"code": "refused"}, errors.Refused),
            ({"code": "refused", "kind": "unknown_task"}, errors.UnknownTask),
            ({"code": "refused", "kind": "unique_key_taken"}, errors.UniqueKeyTaken),
            ({"code": "refused", "kind": "of tomorrow"}, errors.Refused),
            ({"code": "configuration"}, errors.RequestInvalid),
            ({"code": "unavailable"}, errors.StoreAway),
            ({"code": "of tomorrow"}, errors.Refused),
        ],
    )
    def test_a_refusal_has_its_error(self, talk, clock, content, kind):
        """With the node's own words; what a later node says is a refusal at least."""
        answer = json.dumps({"ok": False, "error": "no, for a reason", **content}).encode()
        with pytest.raises(errors.ClientError, match=r"^no, for a reason$") as refused:
            carry_out(talk.get("1", 5), [answer], clock)
        assert type(refused.value) is kind

    @pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"ok":false}', said(), said(task=3), said(task={})])
    def test_what_makes_no_sense_is_refused(self, talk, clock, answer):
        """Whatever answers there."""
        with pytest.raises(errors.Refused, match="is not understood"):
            carry_out(talk.get("1", 5), [answer], clock)


class TestEnds:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            ("failed", errors.TaskFailed),
            ("stopped", errors.TaskWasStopped),
            ("cancelled", errors.TaskCancelled),
            ("lost", errors.TaskLost),
        ],
    )
    def test_each_end_without_a_result_has_its_error(self, talk, clock, status, kind):
        """One class for all of them; it may cross a process."""
        answer = said(task=TASK | {"status": status, "stop": {"by": "me", "reason": "why not"}})
        with pytest.raises(errors.NoResult, match=f"task 1 .a.b. {status}") as ended:
            carry_out(talk.result("1", 5), [answer], clock)
        assert type(ended.value) is kind
        again = pickle.loads(pickle.dumps(ended.value))
        assert (str(again), again.outcome) == (str(ended.value), ended.value.outcome)

    def test_a_stop_that_waits_goes_on_to_the_end(self, talk, clock):
        """In what is left of the time; and not when the task was over already."""
        stopping, stopped = (said(task=TASK | {"status": status}) for status in ("stopping", "stopped"))
        outcome, lines = carry_out(talk.stop("1", "why", 5, wait=True), [stopping, stopped], clock)
        assert (outcome.status, outcome.is_final) == ("stopped", True)
        asked = {"op": "stop", "id": "1", "by": "me@here", "reason": "why"}
        assert lines == [asked, {"op": "wait", "id": "1"}]
        assert carry_out(talk.stop("1", None, 5, wait=True), [stopped], clock)[1] == [asked | {"reason": None}]


def test_an_id_of_a_client_is_one_of_the_store():
    """Version 7: they sort by the time at which they were made."""
    ids = [new_id() for _ in range(1000)]
    assert all(map(is_id, ids))
    assert {(each[14], each[19] in "89ab") for each in ids} == {("7", True)}
    assert [each[:13] for each in ids] == sorted(each[:13] for each in ids)
    assert len(set(ids)) == 1000


def test_an_outcome_says_whether_it_is_one():
    """As the table of states has it."""
    from chong.store.states import Status  # noqa: PLC0415

    for status in Status:
        assert Outcome(id="1", name="a", status=status.value).is_final == status.is_final
