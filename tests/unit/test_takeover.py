"""A new term goes on with what it found: it sends the wanted state again, or reads what is left of a run."""

import json
from dataclasses import replace

import pytest

from chong.store.model import Action, FailureKind, StopMoments, Usage
from chong.store.specimens import LATER_TERM, START, moved, queued, start_of
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.decide import decide
from chong.supervisor.events import TimerName
from chong.supervisor.paths import Paths
from chong.supervisor.takeover import BOTH_DEAD, Takeover
from chong.supervisor.task_state import Phase, TaskState
from chong.worker.options import Options
from chong.worker.wire import Down

STARTING = replace(start_of(queued(max_attempts=2)), started_at=None)
RUNNING = moved(STARTING, Status.RUNNING, started_at=START)
STOP = StopMoments(START, "ann")


def taken_over(status, *, timeout=60.0, used=20.0, **facts):
    task = replace(STARTING if status is Status.STARTING else RUNNING, status=status, **facts)
    options = Options(timeout=timeout)
    state = TaskState(task=task, options=options, term=LATER_TERM, epoch=2, used=used, pid=77)
    return decide(state, e.Event(e.TakenOver(), START, 1000.0, "event"))


class TestTakeOver:
    def test_a_start_goes_on(self):
        """Whether `go` was sent is seen from the frames that follow."""
        state, effects = taken_over(Status.STARTING)
        assert (Phase.FORKED, [e.Thaw(), e.Arm(TimerName.START, 30.0)]) == (state.phase, effects)

    def test_a_running_task_is_resumed(self):
        """A pause of the former term may still be on its way; what is left of its time is armed."""
        state, effects = taken_over(Status.RUNNING)
        assert [e.Thaw(), e.SendDown(Down.RESUME, (2, 1)), e.Arm(TimerName.TIMEOUT, 40.0)] == effects
        assert (state.phase, state.running_time(1005.0)) == (Phase.LIVE, 25.0)

    def test_a_task_over_its_time_is_stopped_at_once(self):
        """It ran on while nobody looked."""
        assert e.Arm(TimerName.TIMEOUT, 0.0) in taken_over(Status.RUNNING, used=500.0)[1]

    def test_a_pausing_task_is_paused_again(self):
        """Its time runs until it answers."""
        state, effects = taken_over(Status.PAUSING)
        assert [e.Thaw(), e.SendDown(Down.PAUSE, (2, 1)), e.Arm(TimerName.TIMEOUT, 40.0)] == effects
        answer = e.Event(e.Answered(Down.PAUSE, (2, 1)), START, 1010.0, "answer")
        state, _ = decide(state, answer)
        assert (state.task.status, state.running_time(5000.0)) == (Status.PAUSED, 30.0)

    def test_a_paused_task_stays_paused(self):
        """Its time stands still, and a second answer moves nothing."""
        state, effects = taken_over(Status.PAUSED)
        assert ([e.Thaw(), e.SendDown(Down.PAUSE, (2, 1))], 20.0) == (effects, state.running_time(5000.0))
        assert decide(state, e.Event(e.Answered(Down.PAUSE, (2, 1)), START, 1010.0, "answer"))[1] == []

    def test_a_frozen_task_is_frozen_again(self):
        """The former term may have thawed it for a resume that was never stored."""
        state, effects = taken_over(Status.PAUSED, flags=frozenset({"frozen"}))
        assert ([e.Freeze()], 20.0) == (effects, state.running_time(5000.0))
        _, effects = decide(state, e.Event(e.Asked(Action.RESUME, "ann"), START, 1010.0, "resume"))
        assert e.Thaw() in effects

    @pytest.mark.parametrize(("stop", "reason"), [(STOP, "stop"), (None, "timeout")])
    def test_a_stopping_task_is_stopped_again(self, stop, reason):
        """The ladder begins anew; without a stop that was asked for it was a time-out."""
        state, effects = taken_over(Status.STOPPING, stop=stop)
        assert [e.Thaw(), e.SendDown(Down.STOP, (2, 1), reason), e.Arm(TimerName.TERM, 10.0)] == effects
        assert (stop is None) == state.timed_out

    def test_a_task_without_a_timeout_has_none_armed(self):
        """It may run for ever."""
        assert [e.Thaw(), e.SendDown(Down.RESUME, (2, 1))] == taken_over(Status.RUNNING, timeout=None)[1]


def frame(number, kind, **body):
    return {"kind": kind, "n": number, "at": 1_700_000_000.5, **body}


READY, STARTED = frame(1, "ready"), frame(2, "started")
RESULT = frame(3, "result", value={"pages": 90})
RAISED = frame(3, "failure", failure={"kind": "exception", "cause": "ValueError", "message": "no such page"})


class Remains:
    """A run's directory with what a forkserver wrote there, and the takeover that reads it."""

    def __init__(self, folder):
        self.paths = Paths(folder / "state", folder / "run")
        self.takeover = Takeover(LATER_TERM, 2, self.paths, {})

    def write(self, task, *frames, code=None, signal=9, used=None, **memo):
        directory = self.paths.run_dir(task.run)
        directory.mkdir(parents=True)
        end = {"code": code, "signal": signal, "at": START.timestamp(), "memo": {"options": memo}, **(used or {})}
        (directory / "remains.json").write_text(json.dumps({**end, "frames": frames}))

    def end_of(self, task):
        """What the task comes to."""
        state, happened = self.takeover.dead(task)
        for what, event_id, at in happened:
            state, _ = decide(state, e.Event(what, at, 0.0, event_id))
        return state.task


@pytest.fixture
def remains(tmp_path):
    return Remains(tmp_path)


class TestDead:
    @pytest.mark.parametrize("task", [STARTING, RUNNING, replace(RUNNING, status=Status.STOPPING, stop=STOP)])
    def test_without_remains_the_run_is_lost(self, remains, task):
        """Nobody can know what became of it."""
        assert remains.end_of(task).status == Status.LOST
        assert [e.HolderDead(BOTH_DEAD)] == [what for what, _, _ in remains.takeover.dead(task)[1]]

    def test_the_last_progress_counts_and_the_end_is_when_it_was(self, remains):
        """Not when somebody came to look."""
        said = frame(3, "checkpoint", done=7, total=9, message="page 7")
        remains.write(RUNNING, said, code=1, signal=None)
        state, happened = remains.takeover.dead(RUNNING)
        beats = []
        for what, event_id, at in happened:
            state, effects = decide(state, e.Event(what, at, 0.0, event_id))
            beats += [effect.progress.done for effect in effects if isinstance(effect, e.Beaten)]
        assert (beats, state.task.status_changed_at) == ([7], START)

    @pytest.mark.parametrize(
        ("code", "number", "used", "cause"),
        [
            (None, 15, {}, "orphaned"),
            (None, 9, {}, "orphaned"),
            (None, None, {}, "orphaned"),
            (None, 11, {}, "SIGSEGV"),
            (7, None, {}, "no_result"),
            (None, 9, {"oom": True}, "oom"),
        ],
    )
    def test_what_went_by_itself_was_not_ended(self, remains, code, number, used, cause):
        """A crash while nobody was there is still the task's own, and not the node's doing."""
        remains.write(RUNNING, STARTED, code=code, signal=number, used=used)
        assert remains.end_of(RUNNING).failure.cause == cause

    @pytest.mark.parametrize(
        ("more", "usage"),
        [
            ({"cpu_seconds": 1.5, "max_rss_bytes": 4096}, [Usage(1.5, None, 4096)]),
            ({"cpu_seconds": None}, []),
            ({}, []),
        ],
    )
    def test_what_the_run_has_used_counts_where_it_is_told(self, remains, more, usage):
        """A forkserver of another version, or one that could not know, does not tell."""
        remains.write(RUNNING, code=1, signal=None, used=more)
        state, happened = remains.takeover.dead(RUNNING)
        told = []
        for what, event_id, at in happened:
            state, effects = decide(state, e.Event(what, at, 0.0, event_id))
            told += [effect.usage for effect in effects if isinstance(effect, e.Measured)]
        assert told == usage

    def test_a_result_that_nobody_read_counts(self, remains):
        """It was complete."""
        remains.write(RUNNING, RESULT, code=0, signal=None)
        assert ((task := remains.end_of(RUNNING)).status, task.outcome) == (Status.SUCCEEDED, {"pages": 90})

    def test_a_failure_that_nobody_read_counts(self, remains):
        """Attempts are left, so it comes again."""
        remains.write(RUNNING, RAISED, code=1, signal=None)
        assert ((task := remains.end_of(RUNNING)).status, task.failure.cause) == (Status.RETRYING, "ValueError")

    @pytest.mark.parametrize(
        ("frames", "options", "status"),
        [
            ([frame(3, "failure", failure=RAISED["failure"] | {"retry": False})], {}, Status.FAILED),
            ([RAISED], {"no_retry_on": ["exception"]}, Status.FAILED),
            ([], {"retry_on": ["exception"]}, Status.FAILED),
            ([], {"retry_on": ["crashed"]}, Status.RETRYING),
        ],
    )
    def test_the_retry_rules_of_the_run_hold(self, remains, frames, options, status):
        """What the worker said of its exception, and what the forkserver kept of its options."""
        remains.write(RUNNING, *frames, **options)
        assert remains.end_of(RUNNING).status == status

    def test_a_worker_that_was_ended_says_why(self, remains):
        """The forkserver's own ladder did it."""
        remains.write(RUNNING)
        assert ((failure := remains.end_of(RUNNING).failure).kind, failure.cause) == (FailureKind.CRASHED, "orphaned")

    def test_a_start_that_never_ran_goes_back_to_the_queue(self, remains):
        """No `started` is among what it said."""
        remains.write(STARTING, READY)
        assert ((task := remains.end_of(STARTING)).status, task.unstarted) == (Status.QUEUED, 1)

    def test_a_start_that_ran_does_not_go_back(self, remains):
        """Its `started` had not been stored."""
        remains.write(STARTING, READY, STARTED)
        assert ((task := remains.end_of(STARTING)).status, task.unstarted) == (Status.RETRYING, 0)

    def test_a_stop_that_was_under_way_is_done(self, remains):
        """It has ended, which was asked for."""
        task = replace(RUNNING, status=Status.STOPPING, stop=STOP)
        remains.write(task)
        assert remains.end_of(task).status == Status.STOPPED

    def test_a_timeout_that_was_under_way_is_one(self, remains):
        """No stop was asked for."""
        task = replace(RUNNING, status=Status.STOPPING, max_attempts=1)
        remains.write(task)
        assert remains.end_of(task).failure.kind == FailureKind.TIMEOUT

    @pytest.mark.parametrize(
        "junk", [{"kind": "nonsense"}, [], "what was no message", frame(3, "started") | {"at": 1e300}]
    )
    def test_junk_fails_the_run_as_it_does_on_the_wire(self, remains, junk):
        """It was the first last word; what comes behind it does not count."""
        remains.write(RUNNING, STARTED, junk, RESULT)
        task = remains.end_of(replace(RUNNING, max_attempts=1))
        assert (task.status, task.failure.kind, task.outcome) == (Status.FAILED, FailureKind.PROTOCOL, None)

    def test_the_first_last_word_counts(self, remains):
        """What comes behind it is not read, be it junk or another one."""
        remains.write(RUNNING, RESULT, [], RAISED, code=0, signal=None)
        assert remains.end_of(RUNNING).status == Status.SUCCEEDED

    def test_the_newest_state_that_nobody_read_is_left_for_the_next_attempt(self, remains):
        """In the frame or in a file; what is junk ends the reading."""
        assert remains.takeover.left_state(RUNNING) is None
        said = [frame(3, "checkpoint", state=1), frame(4, "checkpoint", state_file="s.json"), frame(5, "checkpoint")]
        remains.write(RUNNING, STARTED, *said, [], frame(6, "checkpoint", state=3))
        (remains.paths.run_dir(RUNNING.run) / "s.json").write_text("[2]")
        assert remains.takeover.left_state(RUNNING) == "[2]"

    def test_a_result_in_a_file_is_read(self, remains):
        """It was too large for a frame."""
        remains.write(RUNNING, frame(3, "result", file="result.json"))
        (remains.paths.run_dir(RUNNING.run) / "result.json").write_text("[1, 2]")
        assert remains.end_of(RUNNING).outcome == [1, 2]


class TestState:
    def test_a_run_keeps_the_limits_it_was_started_with(self, tmp_path):
        """Whatever the code says by now."""
        memo = {"options": {"timeout": 5.0, "tags": ["io"], "unheard_of": 1}}
        takeover = Takeover(LATER_TERM, 2, Paths(tmp_path, tmp_path), {RUNNING.run: memo})
        assert Options(timeout=5.0, tags=("io",)) == takeover.state(RUNNING).options

    @pytest.mark.parametrize("memo", [None, [], {}, "memo"])
    def test_a_memo_that_says_nothing_leaves_the_defaults(self, tmp_path, memo):
        """It may come from another version."""
        takeover = Takeover(LATER_TERM, 2, Paths(tmp_path, tmp_path), {RUNNING.run: memo})
        assert Options() == takeover.state(RUNNING).options

    @pytest.mark.parametrize(
        ("task", "status"),
        [(STARTING, Status.QUEUED), (replace(STARTING, status=Status.STOPPING, stop=STOP), Status.STOPPED)],
    )
    def test_a_start_that_was_never_forked_is_made_up_for(self, remains, task, status):
        """Unless it was to be stopped."""
        state, happened = remains.takeover.unforked(task, 3)
        for what, event_id, at in happened:
            state, _ = decide(state, e.Event(what, at, 0.0, event_id))
        assert status == state.task.status
        assert (state.generation, state.is_start_open) == (3, True)


def test_waiting_work_without_its_submission_leaves_the_queue():
    """It may have been queued before the store was met; a lost task must never be given a slot."""
    state = TaskState(task=queued(), options=Options(), term=LATER_TERM, epoch=2)
    after, effects = decide(state, e.Event(e.SpoolGone("no file"), START, 1000.0, "event"))
    assert after.task.status is Status.LOST
    assert e.LeaveQueue() in effects
    assert not after.may_start
