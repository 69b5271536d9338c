"""How a run ended: the first of several true things decides."""

import pytest

from chong.store.model import Failure, FailureKind
from chong.store.states import Status
from chong.supervisor.verdict import Evidence, ProcessEnd, Result, crashed, judge, signal_name

RAISED = Failure(FailureKind.EXCEPTION, "ValueError", "no such page")
KILLED = ProcessEnd(signal=9)


class TestPrecedence:
    @pytest.mark.parametrize(
        ("facts", "status"),
        [
            ({"result": Result(None), "stop_asked": True, "timed_out": True, "failure": RAISED}, Status.SUCCEEDED),
            ({"result": Result(1), "given_up": True, "signalled": True}, Status.SUCCEEDED),
            ({"stop_asked": True, "timed_out": True, "failure": RAISED, "given_up": True}, Status.STOPPED),
            ({"given_up": True, "start_timed_out": True, "failure": RAISED}, Status.QUEUED),
            ({"timed_out": True, "failure": RAISED}, Status.FAILED),
            ({"failure": RAISED}, Status.FAILED),
            ({}, Status.FAILED),
        ],
    )
    def test_the_strongest_evidence_decides_the_status(self, facts, status):
        """A complete result, then a stop, then proof that nothing ran; all else has failed."""
        assert status == judge(Evidence(exit=KILLED, **facts)).status

    @pytest.mark.parametrize(
        ("facts", "kind"),
        [
            ({"timed_out": True, "start_timed_out": True, "failure": RAISED}, FailureKind.TIMEOUT),
            ({"start_timed_out": True, "failure": RAISED}, FailureKind.START_TIMEOUT),
            ({"failure": RAISED}, FailureKind.EXCEPTION),
            ({}, FailureKind.CRASHED),
        ],
    )
    def test_the_strongest_evidence_names_the_failure(self, facts, kind):
        """A time-out, then the worker's own word, then how its process went."""
        assert kind == judge(Evidence(exit=KILLED, **facts)).failure.kind

    def test_a_failure_beside_a_stop_is_kept(self):
        """It is the only trace of what went wrong."""
        assert judge(Evidence(exit=KILLED, stop_asked=True, failure=RAISED)).failure == RAISED

    def test_a_failure_beside_a_result_is_dropped(self):
        """The task has returned."""
        assert None is judge(Evidence(exit=KILLED, result=Result(1), failure=RAISED)).failure

    @pytest.mark.parametrize("facts", [{"stop_asked": True}, {"timed_out": True}])
    def test_an_end_by_signal_is_forced(self, facts):
        """Ours, or one that a former term had sent; a worker that ended by itself after a stop was not forced."""
        forced = [judge(Evidence(exit=end, **facts)).forced for end in (KILLED, ProcessEnd(code=0))]
        assert forced == [True, False]

    def test_a_worker_that_took_our_signal_and_ended_by_itself_was_forced(self):
        """It would not have ended without."""
        assert judge(Evidence(exit=ProcessEnd(code=0), stop_asked=True, signalled=True)).forced


class TestExit:
    @pytest.mark.parametrize(
        ("exit_", "odd"),
        [
            (ProcessEnd(code=0), None),
            (ProcessEnd(code=3), "exit code 3"),
            (ProcessEnd(signal=11), "signal 11 (SIGSEGV)"),
            (ProcessEnd(), "an unknown exit status"),
        ],
    )
    def test_a_result_remembers_an_odd_exit(self, exit_, odd):
        """The task has succeeded all the same."""
        assert odd == judge(Evidence(exit=exit_, result=Result(1))).odd_exit

    @pytest.mark.parametrize(
        ("exit_", "cause"),
        [(ProcessEnd(signal=9), "SIGKILL"), (ProcessEnd(code=0), "no_result"), (ProcessEnd(), "exit_unknown")],
    )
    def test_a_silent_end_names_its_cause(self, exit_, cause):
        """Success needs a returned value, whatever the exit code."""
        assert (FailureKind.CRASHED, cause) == ((failure := crashed(exit_)).kind, failure.cause)

    @pytest.mark.parametrize(
        ("exit_", "cause"),
        [
            (ProcessEnd(signal=9, oom=True), "oom"),
            (ProcessEnd(signal=15, oom=True), "SIGTERM"),
            (ProcessEnd(code=1, oom=True), "no_result"),
        ],
    )
    def test_only_a_kill_beside_the_groups_own_count_is_for_want_of_memory(self, exit_, cause):
        """A child that the kernel killed before is no reason for another end of the run."""
        assert crashed(exit_).cause == cause

    def test_an_outsiders_signal_is_told_as_such(self):
        """So that nobody looks for it in chong."""
        assert "not asked for by chong" in crashed(KILLED).message

    def test_a_signal_without_a_name_has_a_number(self):
        """Real-time signals, for one."""
        assert signal_name(99) == "SIG99"

    def test_an_exit_is_known_by_its_code_or_its_signal(self):
        """Zero is a code."""
        assert [ProcessEnd(code=0).is_known, ProcessEnd(signal=9).is_known, ProcessEnd().is_known] == [
            True,
            True,
            False,
        ]
