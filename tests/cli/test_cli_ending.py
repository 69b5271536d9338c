"""How an end is told in a few words."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chong.cli.ending import end_text
from chong.store.ids import new_id
from chong.store.model import Failure, FailureKind, StopMoments, TaskSnapshot
from chong.store.states import Status

S = Status
NOW = datetime.now(UTC)
TASK = TaskSnapshot(id=new_id(), name="a", status=S.FAILED, version=4, node="n", created_at=NOW, status_changed_at=NOW)
STOP = StopMoments(NOW, "olga@desk", "too slow")
VALUE_ERROR = Failure(FailureKind.EXCEPTION, "ValueError", "no page")
NO_RESULT = Failure(FailureKind.CRASHED, "no_result", "no word")


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"failure": VALUE_ERROR, "exit_code": 1}, "exception ValueError: no page"),
        ({"failure": Failure(FailureKind.EXCEPTION, "MemoryError", ""), "exit_code": 1}, "exception MemoryError"),
        ({"failure": NO_RESULT, "exit_code": 4}, "crashed exit code 4: no word"),
        ({"failure": Failure(FailureKind.CRASHED, "SIGSEGV", "gone"), "exit_signal": 11}, "crashed SIGSEGV: gone"),
        ({"failure": Failure(FailureKind.CRASHED, "oom", "big"), "exit_signal": 9}, "crashed oom, SIGKILL: big"),
        ({"failure": Failure(FailureKind.CRASHED, "exit_unknown", "lost")}, "crashed exit_unknown: lost"),
        (
            {"failure": Failure(FailureKind.TIMEOUT, "timeout", "of 1 s"), "exit_signal": 15, "forced": True},
            "timeout, forced by SIGTERM: of 1 s",
        ),
        ({"failure": Failure(FailureKind.RESULT_INVALID, "ResultInvalid", "a set")}, "result_invalid: a set"),
        ({"status": S.RETRYING, "failure": VALUE_ERROR, "exit_code": 1}, "exception ValueError: no page"),
        ({"status": S.STOPPED, "stop": STOP, "exit_code": 0}, "asked by olga@desk: too slow"),
        (
            {"status": S.STOPPED, "stop": STOP, "exit_signal": 9, "forced": True},
            "forced by SIGKILL, asked by olga@desk: too slow",
        ),
        (
            {"status": S.STOPPED, "stop": STOP, "exit_code": 0, "forced": True},
            "forced: ended by itself after SIGTERM, asked by olga@desk: too slow",
        ),
        ({"status": S.STOPPED, "stop": STOP, "forced": True}, "forced, asked by olga@desk: too slow"),
        (
            {"status": S.CANCELLED, "stop": replace(STOP, reason=None), "failure": VALUE_ERROR},
            "asked by olga@desk, after exception ValueError: no page",
        ),
        ({"status": S.LOST, "attempt": 1}, "outcome unknown"),
        ({"status": S.LOST}, "never started"),
        ({"status": S.LOST, "attempt": 2, "unstarted": 2}, "never started"),
        ({"status": S.LOST, "attempt": 3, "unstarted": 2}, "outcome unknown"),
        (
            {"status": S.LOST, "attempt": 1, "failure": VALUE_ERROR},
            "no further attempt, after exception ValueError: no page",
        ),
        ({"status": S.SUCCEEDED, "exit_code": 0}, None),
        ({"status": S.SUCCEEDED, "exit_signal": 11}, "SIGSEGV after its result"),
        (
            {"status": S.SUCCEEDED, "exit_code": 0, "stop": STOP},
            "result in spite of a stop, asked by olga@desk: too slow",
        ),
        (
            {"status": S.SUCCEEDED, "exit_code": 3, "stop": replace(STOP, reason=None)},
            "exit code 3 after its result, result in spite of a stop, asked by olga@desk",
        ),
        ({"status": S.STOPPING, "stop": STOP}, "asked by olga@desk: too slow"),
        ({"status": S.RUNNING}, None),
    ],
)
def test_an_end_in_a_few_words(facts, text):
    """Kind and cause first, then the exit and the force where they tell more."""
    assert end_text(replace(TASK, **facts)) == text
