"""How a task came to its end, or its last attempt did, in a few words: why, by which exit, by whose will."""

from chong.cli.render import escape
from chong.store.model import Failure, FailureKind, StopMoments, TaskSnapshot
from chong.store.states import Status
from chong.supervisor.verdict import signal_name

NO_RESULT = "no_result"
"""The cause of a crash that an exit code tells better."""


def end_text(task: TaskSnapshot) -> str | None:
    """The gravest first, since tables cut the rest; None while there is nothing to tell."""
    if task.status is Status.SUCCEEDED:
        return _after_result(task)
    if task.status is Status.LOST:
        return _lost(task)
    if task.stop is not None:
        return _stopped(task, task.stop)
    return None if task.failure is None else _failed(task, task.failure)


def exit_text(task: TaskSnapshot) -> str | None:
    """What the process left: "exit code 3", or its signal's name."""
    if task.exit_signal is not None:
        return signal_name(task.exit_signal)
    return None if task.exit_code is None else f"exit code {task.exit_code}"


def cause_text(failure: Failure) -> str:
    """Kind, cause and message, without what one repeats of the other."""
    return f"{_head(failure)}: {failure.message}" if failure.message else _head(failure)


def one_line(task: TaskSnapshot) -> str:
    """How a task ended, or where it stands, in a few words."""
    end = end_text(task)
    return escape(f"{task.status}, {end}" if end else task.status.value)


def _head(failure: Failure) -> str:
    kind, cause = failure.kind.value, failure.cause
    is_same = cause.replace("_", "").lower() == kind.replace("_", "")
    return kind if is_same else f"{kind} {cause}"


def _after_result(task: TaskSnapshot) -> str | None:
    """What does not show in the status: an odd exit, and a stop that came to nothing."""
    facts = []
    left = exit_text(task)
    if left is not None and task.exit_code != 0:
        facts.append(f"{left} after its result")
    if task.stop is not None:
        facts.append(f"result in spite of a stop, {_asked(task.stop)}")
    return ", ".join(facts) or None


def _lost(task: TaskSnapshot) -> str:
    """What only waited is lost as well, when its node is forgotten: of that nothing is unknown."""
    if not task.attempts_used:
        return "never started"
    # A start takes the failure of the attempt before away.
    return "outcome unknown" if task.failure is None else f"no further attempt, after {cause_text(task.failure)}"


def _failed(task: TaskSnapshot, failure: Failure) -> str:
    """The exit only of a crash: an exception always ends its worker with 1, and what was forced names its signal."""
    left = exit_text(task)
    if failure.kind is not FailureKind.CRASHED or left is None or left == failure.cause:
        facts = [_head(failure), *_force(task)]
    elif failure.cause == NO_RESULT:
        facts = [f"{failure.kind} {left}"]
    else:
        facts = [_head(failure), left]
    told = ", ".join(facts)
    return f"{told}: {failure.message}" if failure.message else told


def _stopped(task: TaskSnapshot, stop: StopMoments) -> str:
    facts = [*_force(task), _asked(stop)]
    if task.failure is not None:
        facts.append(f"after {cause_text(task.failure)}")
    return ", ".join(facts)


def _asked(stop: StopMoments) -> str:
    return f"asked by {stop.by}: {stop.reason}" if stop.reason else f"asked by {stop.by}"


def _force(task: TaskSnapshot) -> list[str]:
    """With the signal that did it. An exit code beside it: the task bore SIGTERM, since nothing bears SIGKILL."""
    if not task.forced:
        return []
    if task.exit_signal is not None:
        return [f"forced by {signal_name(task.exit_signal)}"]
    return ["forced" if task.exit_code is None else "forced: ended by itself after SIGTERM"]
