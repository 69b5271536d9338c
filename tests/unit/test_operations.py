"""Each request has one answer, whatever becomes of the operation behind it."""

import pytest
from structlog.testing import CapturingLogger

from chong.store.errors import Refused
from chong.supervisor.operations import Operations


def asked(operation, *, log=None):
    """All answers to one request that `operation` handles."""
    answers = []
    Operations({"do": operation}, log or CapturingLogger()).request({"op": "do", "n": 1}, answers.append)
    return answers


def test_facts_are_answered():
    """The operation gets the request without its op."""
    assert asked(lambda request, settled: settled(request)) == [{"ok": True, "n": 1}]


def refuse(*_):
    raise Refused("not now")


def test_a_refusal_is_answered_with_its_words():
    """Whether it is raised or settled."""
    expected = [{"ok": False, "code": "refused", "error": "not now"}]
    assert expected == asked(refuse) == asked(lambda _, settled: settled(Refused("not now")))


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), RecursionError("x"), AssertionError("x"), OSError(5, "x")])
def test_a_fault_is_a_refusal_and_is_in_the_log(error):
    """It ends nothing, and whoever keeps the node can find it."""

    def fail(*_):
        raise error

    log = CapturingLogger()
    (answer,) = asked(fail, log=log)
    assert (answer["ok"], answer["code"]) == (False, "refused")
    assert answer["error"] == f"internal error: {type(error).__name__}; the supervisor's log has more"
    assert [(call.method_name, call.args, call.kwargs["op"]) for call in log.calls] == [
        ("error", ("request_failed",), "do")
    ]


def test_a_fault_behind_the_answer_adds_no_second_one():
    """The caller would take it for the answer to its next request."""

    def settle_and_fail(_, settled):
        settled({})
        raise ZeroDivisionError

    assert asked(settle_and_fail) == [{"ok": True}]


def test_an_unknown_operation_is_refused_with_those_there_are():
    """As bad input."""
    answers = []
    Operations({"do": refuse}, CapturingLogger()).request({"op": "dou"}, answers.append)
    assert answers == [{"ok": False, "code": "configuration", "error": "request: expected an op of do, got 'dou'"}]
