"""What a node knows of one task in its hands: the snapshot, and where its process stands."""

from dataclasses import dataclass, replace
from enum import StrEnum

from chong.store.model import Failure, TaskSnapshot
from chong.supervisor.events import Asked, RetryAsked
from chong.supervisor.flags import FROZEN
from chong.supervisor.verdict import Evidence, ProcessEnd, Result
from chong.worker.options import Options


class Phase(StrEnum):
    """Where the process of the current attempt stands."""

    IDLE = "idle"
    """There is none, and none was asked for."""
    CLAIMING = "claiming"
    """The attempt is being stored; nothing was forked."""
    SPAWNING = "spawning"
    """The forkserver was asked for a worker."""
    FORKED = "forked"
    """The worker exists and was not told to go."""
    GOING = "going"
    """The worker was told to go; its `started` has not been seen."""
    LIVE = "live"
    """User code runs, or has run."""
    ENDED = "ended"
    """The process is gone; its end is being stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """`task` is the state as decided, `stored_version` how much of it the store has.

    generation: the one that the current attempt was claimed for; 0 when no start of it can be open.
    epoch, downs: numbers of frames sent down. pause_number: the pause that waits for its answer.
    used, since: running time used up before, and the monotonic second since which it runs on.
    requeue_after: the delay of the next attempt, to be queued when the end of this one is stored; not_before: the
    monotonic second before which it must not start, None when this term has not computed it.
    refusals, unsent: forks refused, and starts that the node could not hand over, since user code last ran.
    retry_word: whether the worker said of its exception that it may be retried. retry_asked: the task wants to be.
    signalled, killed: by the ladder, while the worker lived; SIGKILL at any time. worker_ended: it is a zombie.
    """

    task: TaskSnapshot
    options: Options
    term: str
    epoch: int
    stored_version: int = 0
    start_version: int = 0
    generation: int = 0
    phase: Phase = Phase.IDLE
    pid: int | None = None
    downs: int = 0
    pause_number: tuple[int, int] | None = None
    pending_pause: Asked | None = None
    used: float = 0.0
    since: float | None = None
    requeue_after: float | None = None
    not_before: float | None = None
    refusals: int = 0
    unsent: int = 0
    result: Result | None = None
    failure: Failure | None = None
    retry_word: bool | None = None
    retry_asked: RetryAsked | None = None
    timed_out: bool = False
    start_timed_out: bool = False
    given_up: bool = False
    signalled: bool = False
    killed: bool = False
    worker_ended: bool = False
    desynced: bool = False

    @property
    def may_start(self) -> bool:
        """Whether it waits, and nothing of an earlier attempt is left to store."""
        return self.phase is Phase.IDLE and self.task.status.is_waiting and not self.desynced

    @property
    def is_start_open(self) -> bool:
        """Whether its forkserver has to be there still: to be asked, to answer, or to vouch until that is stored."""
        return self.phase is Phase.SPAWNING or self.stored_version < self.task.version

    @property
    def is_stop_asked(self) -> bool:
        return self.task.stop is not None

    @property
    def is_frozen(self) -> bool:
        return FROZEN in self.task.flags

    @property
    def has_process(self) -> bool:
        return self.phase in {Phase.FORKED, Phase.GOING, Phase.LIVE}

    @property
    def has_spoken(self) -> bool:
        """Whether the worker has said its last word."""
        return self.result is not None or self.failure is not None

    def evidence(self, exit_: ProcessEnd) -> Evidence:
        return Evidence(
            exit=exit_,
            result=self.result,
            failure=self.failure,
            stop_asked=self.is_stop_asked,
            timed_out=self.timed_out,
            timeout=self.options.timeout,
            start_timed_out=self.start_timed_out,
            given_up=self.given_up and self.phase is not Phase.LIVE,
            signalled=self.signalled,
        )

    def running_time(self, clock: float) -> float:
        """Seconds of user code so far, pauses not counted."""
        return self.used + (clock - self.since if self.since is not None else 0.0)


def options_for(task: TaskSnapshot, options: Options) -> Options:
    """Those of its definition, but for what its submission said otherwise."""
    return options if task.run_timeout is None else replace(options, timeout=task.run_timeout)
