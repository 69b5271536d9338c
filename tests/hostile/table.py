"""What becomes of each piece of hostile code: a task, what is done to it, and the verdict."""

import signal
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from node_bench import S


@dataclass(frozen=True, kw_only=True)
class Row:
    """then: what is done to the run once its code is under way, by name. log: words that its log has to hold.

    code, signal: how the process ended. odd: whether an odd exit is noted.
    """

    task: str = "bad"
    params: dict[str, Any] = field(default_factory=dict)
    then: str | None = None
    status: S = S.FAILED
    kind: str | None = None
    cause: str | None = None
    message: str = ""
    code: int | None = None
    signal: int | None = None
    forced: bool = False
    outcome: Any = None
    odd: bool = False
    log: str = ""

    def of(self, task: str, **params: Any) -> "Row":
        return replace(self, task=task, params=params)


def raised(cause: str, message: str = "", **more: Any) -> Row:
    return Row(kind="exception", cause=cause, message=message, code=1, **more)


def crashed(number: int | None = None, code: int | None = None, **more: Any) -> Row:
    cause = "no_result" if number is None else signal.Signals(number).name
    said = "" if number is None else "not asked for by chong"
    return Row(kind="crashed", cause=cause, message=said, signal=number, code=code, **more)


def refused(kind: str, cause: str, message: str) -> Row:
    return Row(kind=kind, cause=cause, message=message, code=1)


def protocol(number: int | None = signal.SIGKILL, code: int | None = None) -> Row:
    return Row(kind="protocol", cause="protocol", signal=number, code=code)


def succeeded(outcome: Any, code: int | None = 0, number: int | None = None, **more: Any) -> Row:
    return Row(status=S.SUCCEEDED, outcome=outcome, code=code, signal=number, odd=code != 0, **more)


def stopped(number: int | None = None, code: int | None = None, **more: Any) -> Row:
    return Row(status=S.STOPPED, then=more.pop("then", "stop"), forced=number is not None, signal=number, code=code)


def bad(row: Row, how: str) -> Row:
    return row.of("bad", how=how)


def end(row: Row, how: str) -> Row:
    return row.of("end", how=how)


def once(row: Row, how: str) -> Row:
    """Retries are allowed and of no use."""
    return row.of("end.retried", how=how)


def sample(row: Row, how: str) -> Row:
    return row.of("sample.fail", how=how)


KILL, TERM, SEGV, ABRT = signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT
LATE = Row(kind="timeout", cause="timeout", signal=KILL, forced=True)
INVALID = refused("result_invalid", "ResultInvalid", "expected")
LARGE = refused("result_too_large", "ResultTooLarge", "1048576 bytes")
C_RECURSION = crashed(SEGV) if sys.version_info < (3, 12) else crashed(ABRT)

ROWS: dict[str, Row] = {
    # A1: how a worker may end
    "killed from outside": replace(crashed(KILL).of("hold"), then="kill"),
    "terminated from outside": replace(crashed(TERM).of("hold"), then="terminate"),
    "segfault": end(replace(crashed(SEGV), log="_segfault"), "segfault"),
    "abort": end(replace(crashed(ABRT), log="Fatal Python error: Aborted"), "abort"),
    "recursion": end(raised("RecursionError", "maximum recursion depth exceeded"), "recursion"),
    "recursion in C": bad(C_RECURSION, "recursion in C"),
    "os._exit(0)": end(crashed(code=0), "os._exit(0)"),
    "os._exit(7)": end(crashed(code=7), "os._exit(7)"),
    "kills itself": end(crashed(KILL), "kill self"),
    "sys.exit(0)": end(raised("SystemExit", "0"), "sys.exit(0)"),
    "sys.exit(text)": end(raised("SystemExit", "no way"), "sys.exit(text)"),
    "KeyboardInterrupt": end(raised("KeyboardInterrupt"), "KeyboardInterrupt"),
    "GeneratorExit": end(raised("GeneratorExit"), "GeneratorExit"),
    "own BaseException": end(raised("node_tasks.Own", "mine"), "own BaseException"),
    "TaskStopped that nobody asked for": sample(raised("chong.worker.TaskStopped", "nobody asked"), "stopped unasked"),
    "deaf": stopped(KILL).of("deaf"),
    "loop in C": stopped(TERM).of("c.loop"),
    "loop in C beyond its time-out": LATE.of("timed.c.loop"),
    "swallows every exception": bad(stopped(KILL), "swallows every exception"),
    "frozen from outside": stopped(TERM, then="freeze and stop").of("deaf.frozen"),
    "stops itself": bad(stopped(TERM, then="stop when frozen"), "stops itself"),
    "sleeps in the kernel": bad(stopped(KILL, then="stop when in state D"), "sleeps in the kernel"),
    "ends its group": bad(crashed(TERM), "ends its group"),
    "memory limit": end(raised("MemoryError"), "memory limit"),
    "hoards memory": bad(raised("MemoryError"), "hoards memory"),
    "hard cpu limit": end(crashed(KILL), "cpu limit"),
    "soft cpu limit": bad(crashed(signal.SIGXCPU), "soft cpu limit"),
    "file size limit": bad(raised("OSError", "[Errno 27]"), "file size limit"),
    "no descriptors left": bad(raised("OSError", "[Errno 24]"), "no descriptors left"),
    "segfault after the result": succeeded("kept", None, SEGV).of("dies.after"),
    "hang after the result": succeeded("kept", None, KILL).of("hangs.after"),
    "60 KB and gone": succeeded("y" * 60_000).of("result", size=60_000),
    "daemons": bad(succeeded("with daemons"), "daemons"),
    # A9: what it may say
    "exception without words": sample(raised("sample_tasks.HostileError", "could not be formed"), "hostile"),
    "exception that formulates for ever": sample(raised("sample_tasks.EndlessError", "could not be formed"), "endless"),
    "exception that swallows its end": sample(raised("sample_tasks.StubbornError", "could not be formed"), "stubborn"),
    "exception of 50 MB": sample(raised("sample_tasks.HugeError", "\\0\\ud800é"), "huge"),
    "5,000 causes": sample(raised("ValueError", "4999"), "chain"),
    "causes without end": sample(raised("sample_tasks.EndlessChainError"), "endless chain"),
    "NaN": once(INVALID, "nan"),
    "infinity": once(INVALID, "infinity"),
    "bytes": once(INVALID, "bytes"),
    "NUL": once(INVALID, "nul"),
    "lone surrogate": once(INVALID, "surrogate"),
    "keys that collide": once(INVALID, "colliding keys"),
    "5,000 levels": once(INVALID, "deep"),
    "cycle": INVALID.of("sample.value", what="cycle"),
    "set": INVALID.of("sample.value", what="set"),
    "number of 5,000 digits": once(INVALID, "digits"),
    "2 MB": once(LARGE, "huge"),
    "100 MB": once(LARGE, "huge and many"),
    "a million checkpoints": bad(succeeded(1_000_000), "a million checkpoints"),
    "100 MB of state": bad(raised("chong.worker.result.ResultTooLarge", "state:"), "huge state"),
    "invalid state": bad(raised("chong.worker.result.ResultInvalid", "state:"), "invalid state"),
    "binary output": bad(succeeded("written", log="\\ud800"), "binary output"),
    # A9: what it may do
    "64 threads": bad(succeeded("with 64 threads"), "64 threads"),
    "threads that do not end": bad(succeeded("kept", None, KILL), "threads that do not end"),
    "threads that shout": bad(succeeded("over them"), "threads that shout"),
    "a thread that raises": bad(succeeded("all the same", log="in a thread"), "a thread that raises"),
    "exit handler that raises": bad(succeeded("all the same"), "exit handler that raises"),
    "exit handler that leaves": bad(succeeded("all the same", 9), "exit handler that leaves"),
    "alarm": bad(crashed(signal.SIGALRM), "alarm"),
    "fork bomb": bad(stopped(TERM), "fork bomb"),
    "forked twins": bad(succeeded("one of two"), "forked twins"),
    "a pool killed half-way": bad(crashed(KILL), "a pool killed half-way"),
    "closes everything": bad(crashed(code=0), "closes everything"),
    "closes its output": bad(succeeded("heard"), "closes its output"),
    "shuts its channel": bad(crashed(code=0), "shuts its channel"),
    "casts off its leash": bad(succeeded("unleashed"), "casts off its leash"),
    "calls the harness": bad(succeeded("forged"), "calls the harness"),
    "breaks the harness": bad(succeeded("as if nothing had been"), "breaks the harness"),
    "traces everything": bad(succeeded("seen"), "traces everything"),
    "sends nothing": bad(protocol(), "sends nothing"),
    "sends descriptors": bad(protocol(), "sends descriptors"),
    "sends without end": bad(stopped(TERM, then="stop in the flood"), "sends without end"),
    "names a huge file": bad(protocol(), "names a huge file"),
}
