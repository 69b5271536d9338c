"""Whatever happens in whatever order, `decide` keeps its promises: the checks are those of `decide_world.World`."""

from decide_world import World
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chong.store.model import Action, Failure, FailureKind, Progress
from chong.supervisor import events as e
from chong.supervisor.verdict import ProcessEnd, Result
from chong.worker.wire import Down

EXITS = [ProcessEnd(code=0), ProcessEnd(code=1), ProcessEnd(signal=9), ProcessEnd(signal=15), ProcessEnd()]
FAILURES = [
    Failure(kind, "cause", "message")
    for kind in (FailureKind.EXCEPTION, FailureKind.RESULT_INVALID, FailureKind.PROTOCOL)
]


class Life(RuleBasedStateMachine):
    """One task, from its submission to whatever comes."""

    def __init__(self):
        super().__init__()
        self.world = World(timeout=60.0)

    @initialize(way=st.integers(0, 10))
    def some_way_has_been_gone(self, way):
        """Most of what is interesting happens after a start."""
        self.world.go_on(way)

    def is_here(self):
        return not self.world.is_forgotten

    def has_worker(self):
        return self.is_here() and self.world.is_alive

    def may_speak(self):
        return self.has_worker() and not self.world.worker.is_killed and not self.world.worker.is_frozen

    # --- the store -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_here() and self.world.unsent)
    @rule(most=st.integers(1, 3))
    def the_store_answers(self, most):
        self.world.acknowledge(most)

    @precondition(lambda self: self.is_here() and not self.world.is_desynced)
    @rule(rarely=st.integers(0, 4))
    def another_writer_is_found(self, rarely):
        if rarely == 0:
            self.world.desync()

    # --- the queue and the forkserver ------------------------------------------------------------------------

    @precondition(lambda self: self.is_here() and self.world.is_queued and self.world.is_idle)
    @rule()
    def a_slot_is_free(self):
        self.world.give_slot()

    @precondition(lambda self: self.is_here() and self.world.is_queued and self.world.is_idle)
    @rule(rarely=st.integers(0, 9))
    def the_definition_is_gone(self, rarely):
        if rarely == 0:
            self.world.is_queued = False
            self.world.feed(e.DefinitionGone("no module defines it"))

    @precondition(lambda self: self.is_here() and self.world.is_spawn_asked)
    @rule()
    def a_worker_is_forked(self):
        self.world.answer_spawn()

    @precondition(lambda self: self.is_here() and self.world.is_spawn_asked)
    @rule()
    def the_fork_is_refused(self):
        self.world.answer_spawn(refused="no memory")

    @precondition(lambda self: self.is_here() and self.world.is_spawn_asked)
    @rule()
    def the_forkserver_dies(self):
        self.world.lose_forkserver()

    # --- the worker ------------------------------------------------------------------------------------------

    @precondition(may_speak)
    @rule()
    def the_worker_is_ready(self):
        if not any(isinstance(what, e.Ready) for what, _, _ in self.world.worker.frames):
            self.world.say(e.Ready())

    @precondition(lambda self: self.may_speak() and self.world.worker.went)
    @rule()
    def the_worker_has_started(self):
        if not self.world.worker.ran:
            self.world.say(e.Started())

    @precondition(lambda self: self.may_speak() and self.world.worker.downs)
    @rule(which=st.integers(0, 3))
    def the_worker_answers(self, which):
        down = self.world.worker.downs[-1 - which % len(self.world.worker.downs)]
        self.world.say(e.Answered(down.kind, down.number))

    @precondition(lambda self: self.may_speak() and self.world.worker.ran)
    @rule()
    def the_worker_makes_progress(self):
        self.world.say(e.Checkpointed(Progress(1)))

    @precondition(lambda self: self.may_speak() and self.world.worker.ran)
    @rule(what=st.sampled_from([e.ResultArrived(Result(1)), *map(e.FailureArrived, FAILURES)]))
    def the_worker_says_its_last_word(self, what):
        self.world.say(what)

    @precondition(may_speak)
    @rule(
        what=st.sampled_from(
            [e.Ready(), e.Started(), e.ResultArrived(Result(2)), *map(e.FailureArrived, FAILURES)]
            + [e.Answered(kind, (1, 1)) for kind in (Down.STOP, Down.PAUSE, Down.RESUME)]
        ),
        rarely=st.integers(0, 4),
    )
    def the_worker_talks_junk(self, what, rarely):
        if rarely == 0:
            self.world.say(what)

    @precondition(has_worker)
    @rule(exit_=st.sampled_from(EXITS))
    def the_worker_ends(self, exit_):
        self.world.end_worker(exit_)

    # --- people, time and trouble ----------------------------------------------------------------------------

    @precondition(is_here)
    @rule(action=st.sampled_from([Action.PAUSE, Action.FREEZE, Action.RESUME]))
    def somebody_asks(self, action):
        self.world.ask(action)

    @precondition(is_here)
    @rule(by_node=st.booleans(), rarely=st.integers(0, 2))
    def somebody_asks_for_a_stop(self, by_node, rarely):
        if rarely == 0:
            self.world.ask(Action.STOP, by_node=by_node)

    @precondition(is_here)
    @rule()
    def the_node_drains(self):
        self.world.feed(e.GiveUpStart())

    @precondition(lambda self: self.is_here() and self.world.timers)
    @rule(which=st.integers(0, 3))
    def a_timer_fires(self, which):
        names = sorted(self.world.timers)
        self.world.fire(names[which % len(names)])

    @rule(seconds=st.floats(0, 30))
    def time_passes(self, seconds):
        self.world.clock += seconds

    @precondition(lambda self: self.is_here() and self.world.stored is not None and not self.world.is_desynced)
    @rule(rarely=st.integers(0, 2), forked_late=st.booleans())
    def the_supervisor_dies(self, rarely, forked_late):
        if rarely == 0:
            self.world.crash(forked_late=forked_late)

    # --- always ----------------------------------------------------------------------------------------------

    @invariant()
    def a_slot_is_held_while_a_process_may_exist(self):
        assert self.world.has_slot or not (self.world.is_alive or self.world.is_spawn_asked)

    def teardown(self):
        """Everything that began comes to an end, and every command is answered once."""
        if self.is_here():
            self.world.finish()


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
