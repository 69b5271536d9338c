"""What `decide` answers in the cells of its table that people ask about."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from decide_world import World

from chong.store.model import Action, Completion, Failure, FailureKind, Usage
from chong.store.specimens import START
from chong.store.states import Status
from chong.supervisor import events as e
from chong.supervisor.events import TimerName, is_of_command
from chong.supervisor.starts import MAX_REFUSALS
from chong.supervisor.task_state import Phase
from chong.supervisor.verdict import ProcessEnd, Result
from chong.worker.options import Backoff
from chong.worker.wire import Down

QUEUED, CLAIMING, SPAWNING, FORKED, GOING, LIVE = range(6)
RAISED = Failure(FailureKind.EXCEPTION, "ValueError", "no such page")


def world_at(steps, **facts):
    """A task that has gone so many steps of the plain way, everything stored when it lives."""
    world = World(**facts)
    world.go_on(steps + (steps == LIVE))
    return world


def kinds(world):
    return [type(effect) for effect in world.effects]


def unnoted(world):
    return [effect for effect in world.effects if not isinstance(effect, e.AddNote)]


def armed(world):
    return {effect.name: effect.seconds for effect in world.effects if isinstance(effect, e.Arm)}


def path(world):
    return [moved.target for moved in world.trail]


def ended(world, exit_):
    """The task after its process has ended and the store has everything."""
    world.end_worker(exit_)
    while world.unsent:
        world.acknowledge()
    return world.task


def paused(world):
    world.ask(Action.PAUSE)
    world.say(e.Answered(Down.PAUSE, world.worker.downs[-1].number))
    assert world.task.status is Status.PAUSED
    return world


class TestStop:
    def test_a_queued_task_is_cancelled(self):
        """It leaves the queue, and never starts."""
        world = world_at(QUEUED)
        world.acknowledge()
        world.ask(Action.STOP)
        assert (Status.CANCELLED, [e.SaveState, e.LeaveQueue]) == (world.task.status, kinds(world))

    def test_a_stop_while_claiming_prevents_the_fork(self):
        """Nothing was forked, so the stop is effective as soon as the start is stored."""
        world = world_at(CLAIMING)
        world.ask(Action.STOP)
        world.acknowledge()
        assert [e.SaveState, e.FreeSlot] == kinds(world)
        assert path(world)[-3:] == [Status.STARTING, Status.STOPPING, Status.STOPPED]

    @pytest.mark.parametrize("refused", [None, "no memory"])
    def test_a_stop_while_spawning_waits_for_the_answer(self, refused):
        """A worker that comes is given up; one that does not leaves nothing to end."""
        world = world_at(SPAWNING)
        world.ask(Action.STOP)
        assert [e.SaveState] == kinds(world)
        world.answer_spawn(refused=refused)
        expected = Status.STOPPING if refused is None else Status.STOPPED
        assert (expected, refused is None) == (world.task.status, e.ShutChannel in kinds(world))

    def test_a_stop_when_the_forkserver_dies_while_spawning_is_effective(self):
        """The worker was never forked."""
        world = world_at(SPAWNING)
        world.ask(Action.STOP)
        world.lose_forkserver()
        assert world.task.status == Status.STOPPED

    def test_a_stop_before_go_shuts_the_channel(self):
        """User code can then never run; a worker that hangs is killed."""
        world = world_at(FORKED)
        world.ask(Action.STOP)
        assert [e.SaveState, e.ShutChannel, e.Arm] == kinds(world)
        assert armed(world) == {TimerName.KILL: 5.0}

    def test_ready_after_a_stop_brings_no_go(self):
        """The stop was first."""
        world = world_at(FORKED)
        world.ask(Action.STOP)
        world.say(e.Ready())
        assert e.SendGo not in kinds(world)

    @pytest.mark.parametrize("steps", [GOING, LIVE])
    def test_a_stop_after_go_begins_the_ladder(self, steps):
        """A frame first, and the grace for a checkpoint."""
        world = world_at(steps)
        world.ask(Action.STOP)
        assert (world.task.status, world.worker.downs[-1].kind) == (Status.STOPPING, Down.STOP)
        assert armed(world) == {TimerName.TERM: 10.0}
        assert world.task.stop.delivered_at == world.now()

    def test_the_ladder_ends_in_sigkill(self):
        """SIGTERM, then SIGCONT for a frozen process, then SIGKILL, to the whole group."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        world.fire(TimerName.TERM)
        assert [e.Signal(15), e.Signal(18), e.Arm(TimerName.KILL, 5.0)] == unnoted(world)
        world.fire(TimerName.KILL)
        assert [e.Signal(9), e.Arm(TimerName.KILL, 5.0)] == unnoted(world)

    def test_each_signal_of_the_ladder_is_noted_once(self):
        """With its moment; a SIGKILL that has no effect is sent again, and not noted again."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        noted = []
        for name in (TimerName.TERM, TimerName.KILL, TimerName.KILL):
            world.fire(name)
            noted += [(effect.note.detail, effect.note.at) for effect in world.effects if isinstance(effect, e.AddNote)]
        moments = [START + timedelta(seconds=seconds) for seconds in (10, 15)]
        assert noted == list(
            zip(["SIGTERM to the process group", "SIGKILL to the process group"], moments, strict=True)
        )

    @pytest.mark.parametrize(("ahead", "expected"), [(-20, -20), (20, 0)])
    def test_a_stop_was_asked_for_when_its_command_was_issued(self, ahead, expected):
        """Not when the node took it up; nor later, by another machine's clock."""
        world = world_at(LIVE)
        now = world.now()
        world.feed(e.Asked(Action.STOP, "ann", issued_at=now + timedelta(seconds=ahead)))
        assert (now + timedelta(seconds=expected), now) == (world.task.stop.asked_at, world.task.stop.delivered_at)
        assert ((task := ended(world, ProcessEnd(signal=9))).status, task.forced) == (Status.STOPPED, True)

    def test_a_worker_that_sigkill_does_not_end_is_told_of(self):
        """It stays `stopping` with a flag, keeps its slot, and is killed again; its end is stored as ever."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        for name in (TimerName.TERM, TimerName.KILL, TimerName.KILL):
            world.fire(name)
        assert (world.task.status, world.task.flags) == (Status.STOPPING, {"unkillable"})
        assert e.Signal(9) in world.effects
        assert world.has_slot
        world.fire(TimerName.KILL)
        assert e.SaveState not in kinds(world)
        task = ended(world, ProcessEnd(signal=9))
        assert (task.status, task.flags) == (Status.STOPPED, frozenset())

    @pytest.mark.parametrize(("before", "forced"), [(0, False), (1, True)])
    def test_signals_after_the_worker_has_ended_are_no_force(self, before, forced):
        """Nobody has told its exit yet, so the ladder goes on."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        for name in (TimerName.TERM, TimerName.KILL)[:before]:
            world.fire(name)
        world.feed(e.WorkerEnded())
        for name in (TimerName.TERM, TimerName.KILL)[before:]:
            world.fire(name)
        assert ended(world, ProcessEnd(code=0)).forced is forced

    def test_a_worker_that_has_ended_is_in_time(self):
        """Also when nobody has told its exit before its time-out would have been over."""
        world = world_at(LIVE)
        world.feed(e.WorkerEnded())
        assert TimerName.TIMEOUT not in world.timers

    def test_a_paused_task_can_be_stopped(self):
        """The stop reaches it at its checkpoint."""
        world = paused(world_at(LIVE))
        world.ask(Action.STOP)
        assert ended(world, ProcessEnd(code=0)).status == Status.STOPPED

    def test_a_stop_during_a_timeout_wins(self):
        """The ladder goes on, no second frame is sent, and the task ends as stopped."""
        world = world_at(LIVE, timeout=60.0)
        world.fire(TimerName.TIMEOUT)
        world.ask(Action.STOP)
        assert ([e.SaveState], [Down.STOP]) == (kinds(world), [down.kind for down in world.worker.downs])
        assert ended(world, ProcessEnd(code=0)).status == Status.STOPPED

    def test_a_second_stop_is_answered_and_changes_nothing(self):
        """The intent is recorded already."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        world.ask(Action.STOP)
        assert [e.AnswerCommand(Completion("command-2"))] == world.effects

    def test_a_failure_beside_a_stop_is_kept(self):
        """Stopped, and what went wrong on the way."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        world.say(e.FailureArrived(RAISED))
        assert ((task := ended(world, ProcessEnd(code=1))).status, task.failure) == (Status.STOPPED, RAISED)

    def test_a_result_beats_a_stop(self):
        """What is done is done."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        world.say(e.ResultArrived(Result(7)))
        assert ((task := ended(world, ProcessEnd(code=0))).status, task.outcome) == (Status.SUCCEEDED, 7)

    def test_an_acknowledged_stop_is_audited_once(self):
        """The moment of the first answer stands."""
        world = world_at(LIVE)
        world.ask(Action.STOP)
        number = world.worker.downs[-1].number
        world.clock += 3
        world.say(e.Answered(Down.STOP, number))
        seen = world.now()
        world.say(e.Answered(Down.STOP, number))
        assert (seen, []) == (world.task.stop.acknowledged_at, world.effects)

    def test_an_ended_task_is_too_late_to_stop(self):
        """The command says how it ended."""
        world = world_at(LIVE)
        world.say(e.ResultArrived(Result(7)))
        world.end_worker(ProcessEnd(code=0))
        world.ask(Action.STOP)
        assert [Completion("command-1", "too_late", "the task is succeeded")] == [
            effect.completion for effect in world.effects
        ]


class TestPause:
    def test_a_pause_waits_for_the_start(self):
        """It is sent when user code runs."""
        world = world_at(GOING)
        world.ask(Action.PAUSE)
        assert world.effects == []
        world.say(e.Started())
        assert (path(world)[-2:], world.worker.downs[-1].kind) == ([Status.RUNNING, Status.PAUSING], Down.PAUSE)
        assert (Completion("command-1"),) == world.effects[0].completes
        assert [is_of_command(step.event_id, "command-1") for step in world.trail[-2:]] == [False, True]

    def test_a_pause_that_waits_twice_is_kept_once(self):
        """A command that is delivered again is the same command; another one is superseded."""
        world = world_at(GOING)
        world.ask(Action.PAUSE)
        world.feed(world.asked["command-1"])
        assert world.effects == []
        world.ask(Action.PAUSE)
        assert [effect.completion.outcome for effect in world.effects] == ["superseded"]

    def test_a_stop_supersedes_a_pause_that_waits(self):
        """Both commands end with one save."""
        world = world_at(GOING)
        world.ask(Action.PAUSE)
        world.ask(Action.STOP)
        outcomes = {end.command_id: end.outcome for end in world.effects[0].completes}
        assert outcomes == {"command-1": "superseded", "command-2": "done"}

    def test_a_resume_supersedes_a_pause_that_waits(self):
        """The task then starts as if nobody had asked."""
        world = world_at(GOING)
        world.ask(Action.PAUSE)
        world.ask(Action.RESUME)
        world.say(e.Started())
        assert world.task.status == Status.RUNNING

    def test_each_pause_is_answered_anew(self):
        """The answer to an earlier pause does not pause the task again."""
        world = paused(world_at(LIVE))
        first = world.worker.downs[-1].number
        world.ask(Action.RESUME)
        world.ask(Action.PAUSE)
        world.say(e.Answered(Down.PAUSE, first))
        assert world.task.status == Status.PAUSING
        world.say(e.Answered(Down.PAUSE, world.worker.downs[-1].number))
        assert world.task.status == Status.PAUSED

    @pytest.mark.parametrize("action", [Action.PAUSE, Action.RESUME])
    def test_a_queued_task_is_neither_paused_nor_resumed(self, action):
        """It says what was expected."""
        world = world_at(QUEUED)
        world.ask(action)
        (answer,) = world.effects
        assert (answer.completion.outcome, "it is queued" in answer.completion.detail) == ("refused", True)

    def test_paused_time_does_not_count_for_the_timeout(self):
        """Only what is left of the running time is armed at the resume."""
        world = world_at(LIVE, timeout=60.0)
        world.clock += 20
        paused(world)
        world.clock += 1000
        world.ask(Action.RESUME)
        assert armed(world) == {TimerName.TIMEOUT: 40.0}

    def test_a_paused_task_has_no_timeout_armed(self):
        """Its time stands still."""
        assert TimerName.TIMEOUT not in paused(world_at(LIVE, timeout=60.0)).timers

    def test_time_counts_until_the_pause_is_answered(self):
        """A task that was resumed while pausing never stood still."""
        world = world_at(LIVE, timeout=60.0)
        world.clock += 10
        world.ask(Action.PAUSE)
        world.clock += 10
        world.ask(Action.RESUME)
        assert armed(world) == {TimerName.TIMEOUT: 40.0}


def frozen(world):
    world.ask(Action.FREEZE)
    assert (world.task.status, world.task.flags) == (Status.PAUSED, {"frozen"})
    return world


class TestFreeze:
    def test_a_running_task_is_paused_in_one_step(self):
        """Nobody has to answer: both moves, the signal and the end of the command are one decision."""
        world = frozen(world_at(LIVE, timeout=60.0))
        assert [e.SaveState, e.Disarm, e.Freeze] == kinds(world)
        assert path(world)[-3:] == [Status.RUNNING, Status.PAUSING, Status.PAUSED]
        assert (Completion("command-1"),) == world.effects[0].completes

    def test_a_pause_under_way_is_finished_by_it(self):
        """The answer that may still come to the pause changes nothing."""
        world = world_at(LIVE)
        world.ask(Action.PAUSE)
        number = world.worker.downs[-1].number
        frozen(world)
        world.say(e.Answered(Down.PAUSE, number))
        assert (path(world)[-2:], world.effects) == ([Status.PAUSING, Status.PAUSED], [])

    def test_a_paused_task_is_frozen_as_well(self):
        """With a row of its own in the trail; a second freeze has none."""
        world = frozen(paused(world_at(LIVE)))
        assert path(world)[-2:] == [Status.PAUSED, Status.PAUSED]
        world.ask(Action.FREEZE)
        assert [e.AnswerCommand] == kinds(world)

    def test_a_pause_of_a_frozen_task_is_done(self):
        """It is paused."""
        world = frozen(world_at(LIVE))
        world.ask(Action.PAUSE)
        assert [Completion("command-2")] == [effect.completion for effect in world.effects]

    def test_a_freeze_waits_for_the_start(self):
        """And stops the worker at the first line of user code."""
        world = world_at(GOING)
        world.ask(Action.FREEZE)
        assert world.effects == []
        world.say(e.Started())
        assert path(world)[-3:] == [Status.RUNNING, Status.PAUSING, Status.PAUSED]
        assert (world.worker.is_frozen, world.timers) == (True, {})

    @pytest.mark.parametrize("action", [Action.RESUME, Action.STOP])
    def test_it_is_thawed_before_it_is_told(self, action):
        """Otherwise nobody would hear it."""
        world = frozen(world_at(LIVE))
        world.ask(action)
        assert kinds(world).index(e.Thaw) < kinds(world).index(e.SendDown)
        assert (world.worker.is_frozen, world.task.flags) == (False, frozenset())

    def test_frozen_time_does_not_count_for_the_timeout(self):
        """Only what is left of the running time is armed at the resume."""
        world = world_at(LIVE, timeout=60.0)
        world.clock += 20
        frozen(world)
        world.clock += 1000
        world.ask(Action.RESUME)
        assert armed(world) == {TimerName.TIMEOUT: 40.0}

    def test_a_last_word_that_came_before_it_lets_the_process_end(self):
        """It was under way in the socket; the process has nothing left to do but its teardown."""
        world = frozen(world_at(LIVE))
        world.say(e.ResultArrived(Result(7)))
        assert (world.worker.is_frozen, world.timers) == (False, {TimerName.KILL: 5.0})
        assert ((task := ended(world, ProcessEnd(code=0))).status, task.flags) == (Status.SUCCEEDED, frozenset())

    def test_after_the_last_word_it_is_too_late(self):
        """Frozen in its teardown, it would only be killed."""
        world = world_at(LIVE)
        world.say(e.ResultArrived(Result(7)))
        world.ask(Action.FREEZE)
        assert [effect.completion.outcome for effect in world.effects] == ["too_late"]

    @pytest.mark.parametrize("asked", [Action.STOP, None])
    def test_what_does_not_run_cannot_be_frozen(self, asked):
        """It is stopping, or waits for its slot."""
        world = world_at(LIVE if asked else QUEUED)
        if asked:
            world.ask(asked)
        world.ask(Action.FREEZE)
        (answer,) = world.effects
        assert (answer.completion.outcome, "expected a running task" in answer.completion.detail) == ("refused", True)

    def test_a_retry_of_a_frozen_run_that_was_killed_is_not_frozen(self):
        """The flag is the pause's."""
        world = frozen(world_at(LIVE))
        assert ((task := ended(world, ProcessEnd(signal=9))).status, task.flags) == (Status.RETRYING, frozenset())


class TestStart:
    def test_the_attempt_is_stored_before_the_fork(self):
        """Whoever comes after a crash must know of it."""
        world = world_at(CLAIMING)
        assert [e.SaveState] == kinds(world)
        world.acknowledge()
        assert [e.Spawn, e.Arm] == kinds(world)

    def test_a_silent_forkserver_is_stuck(self):
        """It is replaced; the start goes back to the queue when it is dead."""
        world = world_at(SPAWNING)
        world.fire(TimerName.START)
        assert [e.ForkserverStuck()] == world.effects
        world.lose_forkserver()
        assert (world.task.status, world.task.unstarted, world.task.attempts_used) == (Status.QUEUED, 1, 0)

    @pytest.mark.parametrize(("steps", "group"), [(FORKED, False), (GOING, True)])
    def test_a_worker_that_does_not_start_is_killed(self, steps, group):
        """Before it said ready it may not have its group yet."""
        world = world_at(steps)
        world.fire(TimerName.START)
        assert [e.Signal(9, group=group)] == unnoted(world)
        assert ended(world, ProcessEnd(signal=9)).failure.kind == FailureKind.START_TIMEOUT

    def test_a_start_in_time_disarms_the_timer(self):
        """And arms the task's own."""
        world = world_at(LIVE, timeout=60.0)
        assert {TimerName.TIMEOUT} == world.timers.keys()

    def test_a_started_that_was_seen_before_changes_nothing(self):
        """A former term stored it and died before it could pop the frame."""
        world = world_at(LIVE)
        world.say(e.Started())
        assert world.effects == []

    def test_refused_forks_end_in_spawn_failed(self):
        """The last one does not go back to the queue; none counts as an attempt."""
        world = world_at(QUEUED)
        world.acknowledge()
        for _ in range(MAX_REFUSALS):
            world.give_slot()
            world.acknowledge(2)
            world.answer_spawn(refused="no memory")
        assert path(world)[-3:] == [Status.STARTING, Status.QUEUED, Status.FAILED]
        assert (world.task.failure.kind, world.task.attempts_used) == (FailureKind.SPAWN_FAILED, 0)

    def test_a_refused_fork_waits_longer_each_time(self):
        """Memory may come back."""
        world = world_at(QUEUED)
        world.acknowledge()
        delays = []
        for _ in range(MAX_REFUSALS - 1):
            world.give_slot()
            world.acknowledge(2)
            world.answer_spawn(refused="no memory")
            delays.append(world.effects[-1].delay)
        assert all(later > earlier * 4 / 3 for earlier, later in itertools.pairwise(delays))

    @pytest.mark.parametrize(
        ("before", "outcome", "now"), [(0, "refused", "in the queue"), (MAX_REFUSALS - 1, "too_late", "is failed")]
    )
    def test_a_pause_whose_fork_is_refused_hears_what_becomes_of_the_task(self, before, outcome, now):
        """Not that it waits, when it does not wait any more."""
        world = world_at(QUEUED)
        world.acknowledge()
        for _ in range(before):
            world.give_slot()
            world.acknowledge(2)
            world.answer_spawn(refused="no memory")
        world.give_slot()
        world.acknowledge(2)
        world.ask(Action.PAUSE)
        world.answer_spawn(refused="no memory")
        (end,) = world.effects[0].completes
        assert (end.outcome, now in end.detail) == (outcome, True)

    def test_a_start_forgives_refusals(self):
        """The count is of refusals in a row."""
        assert world_at(LIVE).state.refusals == 0

    def test_a_definition_that_is_gone_fails_the_task(self):
        """Nothing will ever run it."""
        world = world_at(QUEUED)
        world.acknowledge()
        world.feed(e.DefinitionGone("no module defines it"))
        assert (world.task.status, world.task.failure.kind) == (Status.FAILED, FailureKind.IMPORT_ERROR)

    def test_a_definition_that_is_gone_does_not_touch_a_run(self):
        """Its worker has the code."""
        world = world_at(LIVE)
        world.feed(e.DefinitionGone("no module defines it"))
        assert world.effects == []


class TestUsage:
    def test_what_a_run_has_used_goes_with_its_end(self):
        """In the same turn as the save that takes the lease away, to which it is written."""
        world = world_at(LIVE)
        world.end_worker(ProcessEnd(code=1, usage=Usage(1.5, None, 4096)))
        assert kinds(world)[0] is e.SaveState
        assert [effect.usage for effect in world.effects if isinstance(effect, e.Measured)] == [Usage(1.5, None, 4096)]

    def test_a_run_of_which_nothing_is_known_keeps_its_last_sample(self):
        """Whoever had reaped it knew; a zero would be a lie."""
        world = world_at(LIVE)
        world.end_worker(ProcessEnd())
        assert e.Measured not in kinds(world)


class TestDrain:
    def test_a_start_before_go_goes_back_to_the_queue(self):
        """It provably never ran, so the attempt does not count."""
        world = world_at(FORKED)
        world.feed(e.GiveUpStart())
        assert [e.ShutChannel, e.Arm] == kinds(world)
        task = ended(world, ProcessEnd(code=0))
        assert (task.status, task.attempt, task.unstarted, task.attempts_used) == (Status.QUEUED, 1, 1, 0)

    @pytest.mark.parametrize("steps", [CLAIMING, SPAWNING])
    def test_a_start_under_way_is_given_up_when_its_answer_comes(self, steps):
        """Whatever the store or the forkserver says."""
        world = world_at(steps)
        world.feed(e.GiveUpStart())
        if steps == SPAWNING:
            world.answer_spawn()
            assert e.ShutChannel in kinds(world)
            ended(world, ProcessEnd(code=0))
        else:
            world.acknowledge()
        assert (world.task.status, world.task.unstarted) == (Status.QUEUED, 1)

    @pytest.mark.parametrize("steps", [GOING, LIVE])
    def test_a_run_that_was_told_to_go_goes_on(self, steps):
        """It may have run user code."""
        world = world_at(steps)
        world.feed(e.GiveUpStart())
        assert (world.effects, world.state.given_up) == ([], False)

    def test_a_pause_that_waited_is_refused(self):
        """The task waits in the queue, where it cannot be paused."""
        world = world_at(CLAIMING)
        world.ask(Action.PAUSE)
        world.feed(e.GiveUpStart())
        world.acknowledge()
        assert [end.outcome for end in world.effects[0].completes] == ["refused"]


class TestGoNotSent:
    def test_it_goes_back_to_the_queue_and_waits(self):
        """Longer each time; the attempt does not count."""
        world = world_at(GOING)
        delays = []
        for unstarted in (1, 2, 3):
            world.feed(e.GoNotSent())
            assert e.ShutChannel in kinds(world)
            task = ended(world, ProcessEnd(code=0))
            assert (task.status, task.unstarted, task.attempts_used) == (Status.QUEUED, unstarted, 0)
            while world.unsent:
                world.acknowledge()
            [delay] = [effect.delay for effect in world.effects if isinstance(effect, e.Requeue)]
            delays.append(delay)
            world.give_slot()
            world.acknowledge()
            world.answer_spawn()
            world.say(e.Ready())
        assert 0.5 < delays[0] < delays[1] < delays[2]


class TestEnd:
    def test_a_failure_with_attempts_left_is_retried(self):
        """After its end is stored, and a while."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(RAISED))
        world.end_worker(ProcessEnd(code=1))
        assert (world.task.status, world.task.failure) == (Status.RETRYING, RAISED)
        assert e.Requeue not in kinds(world)
        while world.unsent:
            world.acknowledge()
        assert [e.Release, e.Requeue] == kinds(world)

    def test_the_last_attempt_fails(self):
        """No attempt is left."""
        world = world_at(LIVE, max_attempts=1)
        world.say(e.FailureArrived(RAISED))
        assert ended(world, ProcessEnd(code=1)).status == Status.FAILED

    def test_an_unstarted_attempt_leaves_its_try(self):
        """With one attempt allowed, one that never ran is made up for."""
        world = world_at(FORKED, max_attempts=1)
        world.feed(e.GiveUpStart())
        ended(world, ProcessEnd(code=0))
        world.give_slot()
        assert (world.task.attempt, world.task.attempts_used) == (2, 1)

    @pytest.mark.parametrize("kind", [FailureKind.RESULT_INVALID, FailureKind.RESULT_TOO_LARGE, FailureKind.PROTOCOL])
    def test_what_would_fail_again_is_not_retried(self, kind):
        """Whatever attempts are left."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(replace(RAISED, kind=kind)))
        assert ended(world, ProcessEnd(code=1)).status == Status.FAILED

    def test_a_worker_that_hangs_after_its_result_is_killed(self):
        """It has succeeded, and the odd exit is noted."""
        world = world_at(LIVE, timeout=60.0)
        world.say(e.ResultArrived(Result(7)))
        assert world.timers == {TimerName.KILL: 5.0}
        world.fire(TimerName.KILL)
        world.end_worker(ProcessEnd(signal=9))
        assert (Status.SUCCEEDED, [e.SaveState, e.Disarm]) == (world.task.status, kinds(world)[:2])
        assert [effect.note.kind for effect in world.effects if isinstance(effect, e.AddNote)] == ["odd_exit"]

    def test_junk_on_the_wire_kills_the_run(self):
        """And nothing else."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(replace(RAISED, kind=FailureKind.PROTOCOL)))
        assert e.Signal(9) == world.effects[-1]

    def test_a_timeout_stops_by_the_same_ladder(self):
        """And fails."""
        world = world_at(LIVE, timeout=60.0, max_attempts=1)
        world.fire(TimerName.TIMEOUT)
        assert (world.task.status, armed(world)) == (Status.STOPPING, {TimerName.TERM: 10.0})
        assert ended(world, ProcessEnd(code=0)).failure.kind == FailureKind.TIMEOUT

    def test_a_final_state_is_forgotten_when_it_is_stored(self):
        """The process is released before."""
        world = world_at(LIVE)
        world.say(e.ResultArrived(Result(7)))
        world.end_worker(ProcessEnd(code=0))
        assert e.Release not in kinds(world)
        world.acknowledge(3)
        assert [e.Release, e.Forget] == kinds(world)

    def test_a_retry_starts_with_a_clean_sheet(self):
        """Nothing of the last attempt shows in the next."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(RAISED))
        ended(world, ProcessEnd(code=1))
        world.give_slot()
        task = world.task
        assert (
            task.failure,
            task.exit_code,
            task.exit_signal,
            task.started_at,
            task.attempt,
        ) == (None, None, None, None, 2)


def raised(world, word):
    world.say(e.FailureArrived(RAISED, word))
    return ended(world, ProcessEnd(code=1))


class TestRetryRules:
    @pytest.mark.parametrize(
        ("word", "status"), [(True, Status.RETRYING), (None, Status.RETRYING), (False, Status.FAILED)]
    )
    def test_a_failure_that_must_not_come_again_is_the_last(self, word, status):
        """Though attempts are left."""
        assert raised(world_at(LIVE), word).status is status

    def test_the_word_is_that_of_its_attempt(self):
        """A crash of the next one is judged by itself."""
        world = world_at(LIVE, retry_on=("crashed",))
        raised(world, True)
        world.give_slot()
        assert world.state.retry_word is None

    def test_a_timeout_that_is_not_listed_is_the_last(self):
        """Whatever the worker said of an exception on the way."""
        world = world_at(LIVE, timeout=60.0, retry_on=("exception",))
        world.fire(TimerName.TIMEOUT)
        assert (task := raised(world, True)).status is Status.FAILED
        assert task.failure.kind is FailureKind.TIMEOUT

    def test_the_next_attempt_waits_as_the_options_say(self):
        """From their first wait on."""
        world = world_at(LIVE, backoff=Backoff(first=7.0, most=7.0, jitter=0.0))
        raised(world, True)
        assert e.Requeue(7.0) in world.effects


class TestDesync:
    def test_a_run_is_killed_and_never_written_again(self):
        """What it came to is a note."""
        world = world_at(LIVE)
        world.desync()
        assert e.Signal(9) in world.effects
        world.end_worker(ProcessEnd(signal=9))
        assert [effect.note.kind for effect in world.effects if isinstance(effect, e.AddNote)] == ["late_result"]
        assert world.is_forgotten

    def test_a_waiting_task_is_let_go_at_once(self):
        """Nothing of it is left to see to its end."""
        world = world_at(QUEUED)
        world.desync()
        assert world.is_forgotten

    def test_a_worker_that_comes_late_is_given_up(self):
        """It never runs user code."""
        world = world_at(SPAWNING)
        world.desync()
        world.answer_spawn()
        assert e.ShutChannel in kinds(world)

    def test_a_refused_fork_writes_nothing(self):
        """No process is left, so the task is let go."""
        world = world_at(SPAWNING)
        world.desync()
        world.answer_spawn(refused="no memory")
        assert world.is_forgotten

    def test_a_dead_forkserver_writes_nothing(self):
        """As a refused fork."""
        world = world_at(SPAWNING)
        world.desync()
        world.lose_forkserver()
        assert world.is_forgotten

    def test_ready_brings_no_go(self):
        """The frame may have been under way when the other writer was found."""
        world = world_at(FORKED)
        world.desync()
        world.say(e.Ready())
        assert e.SendGo not in kinds(world)

    @pytest.mark.parametrize("what", [e.Started(), e.TimerFired(TimerName.TIMEOUT), e.Answered(Down.PAUSE, (1, 2))])
    def test_nothing_that_still_happens_is_written(self, what):
        """The task is another writer's."""
        world = world_at(GOING if isinstance(what, e.Started) else LIVE, timeout=60.0)
        if isinstance(what, e.Answered):
            world.ask(Action.PAUSE)
            world.acknowledge()
        world.desync()
        world.feed(what)
        assert e.SaveState not in kinds(world)

    def test_a_run_whose_end_was_on_its_way_leaves_a_note(self):
        """It had ended; only the store had not heard of it."""
        world = world_at(LIVE)
        world.say(e.ResultArrived(Result(1)))
        world.end_worker(ProcessEnd(code=0))
        world.desync()
        assert [effect.note.kind for effect in world.effects if isinstance(effect, e.AddNote)] == ["late_result"]

    def test_an_end_that_was_stored_leaves_none(self):
        """What another writer then changes is the task in its queue, not that run."""
        world = world_at(LIVE)
        world.say(e.FailureArrived(RAISED))
        ended(world, ProcessEnd(code=1))
        world.ask(Action.STOP)
        world.desync()
        assert world.task.exit_code == 1
        assert e.AddNote not in kinds(world)

    def test_a_pause_that_waited_is_answered(self):
        """Its task is another writer's now."""
        world = world_at(GOING)
        world.ask(Action.PAUSE)
        world.desync()
        assert [effect.completion.outcome for effect in world.effects if type(effect) is e.AnswerCommand] == [
            "too_late"
        ]


class TestSmallPrint:
    def test_a_late_fork_is_still_bound_to_start_in_time(self):
        """The answer came while the forkserver was being replaced; its timer had fired."""
        world = World()
        world.go_on(SPAWNING)
        world.fire(TimerName.START)
        world.answer_spawn()
        assert armed(world) == {TimerName.START: 30.0}

    def test_a_resume_after_the_last_word_arms_no_timeout(self):
        """The task is over; a time-out would hide its failure."""
        world = paused(world_at(LIVE, timeout=60.0))
        world.say(e.FailureArrived(RAISED))
        world.ask(Action.RESUME)
        assert TimerName.TIMEOUT not in world.timers

    def test_a_stop_before_the_next_fork_is_not_forced(self):
        """The signal that ended the attempt before is that attempt's."""
        world = world_at(LIVE, timeout=60.0)
        world.fire(TimerName.TIMEOUT)
        world.fire(TimerName.TERM)
        ended(world, ProcessEnd(signal=15))
        world.give_slot()
        world.ask(Action.STOP)
        world.acknowledge(2)
        assert (world.task.status, world.task.forced) == (Status.STOPPED, False)

    def test_a_stop_that_a_start_timeout_ended_is_forced(self):
        """A SIGKILL had to end it."""
        world = world_at(GOING)
        world.ask(Action.STOP)
        world.fire(TimerName.START)
        assert ((task := ended(world, ProcessEnd(signal=9))).status, task.forced) == (Status.STOPPED, True)

    def test_a_last_word_after_the_end_arms_nothing(self):
        """Its timer would fire into the next attempt."""
        world = world_at(GOING)
        ended(world, ProcessEnd(code=1))
        world.feed(e.FailureArrived(replace(RAISED, kind=FailureKind.PROTOCOL)))
        assert (world.effects, world.state.phase) == ([], Phase.IDLE)
