"""A failure in words, whatever the exception does: its text is the task's code, and may raise, loop or be huge."""

import traceback
from collections.abc import Callable
from signal import ITIMER_REAL, SIG_IGN, SIG_UNBLOCK, SIGALRM, pthread_sigmask, setitimer, signal
from types import FrameType, TracebackType
from typing import Self, TypeVar

MESSAGE_LIMIT = 500
TRACEBACK_LIMIT = 64 * 1024
_CALLERS = (__package__, "asyncio")
_LEFT_OUT = "\n… left out …\n"
BUDGET = 1.0
"""Seconds for forming the message, and again for the traceback."""

Facts = dict[str, str]
Text = TypeVar("Text")


class _OutOfTime(BaseException):
    """Forming a text took longer than its budget."""


def describe(error: BaseException, kind: str, last_words: Callable[[Facts], None]) -> Facts:
    """`last_words` gets poorer facts when even the end of the budget is swallowed; it must not return."""
    facts = {"kind": kind, "cause": cause_of(error), "message": "(its text could not be formed)", "traceback": ""}
    with _Budget(lambda: last_words(facts)) as budget:
        facts["message"] = budget.spend(lambda: shorten(str(error), MESSAGE_LIMIT), facts["message"])
        facts["traceback"] = budget.spend(lambda: _stack(error), "(no traceback could be formed)")
        facts["traceback"] = budget.spend(lambda: _full(error), facts["traceback"])
    return facts


def describe_trusted(error: BaseException, kind: str) -> Facts:
    """As `describe`, of an exception whose text may be formed without a budget, and so without the process's timer."""
    return {
        "kind": kind,
        "cause": cause_of(error),
        "message": shorten(str(error), MESSAGE_LIMIT),
        "traceback": _full(error),
    }


def fact(kind: str, cause: str, message: str) -> Facts:
    """A failure that is no exception of the task."""
    return {"kind": kind, "cause": cause, "message": shorten(message, MESSAGE_LIMIT), "traceback": ""}


def cause_of(error: BaseException) -> str:
    """The exception's type by name; read past any metaclass."""
    kind = type(error)
    name = str.__add__(type.__dict__["__qualname__"].__get__(kind), "")
    module = type.__dict__["__module__"].__get__(kind)
    home = str.__add__(module, ".") if issubclass(type(module), str) else ""
    return shorten(name if home == "builtins." else home + name, 200)


def traceback_of(error: BaseException) -> TracebackType | None:
    """Past whatever the exception's class makes of its attributes."""
    trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(error)
    return trace


def shorten(text: str, limit: int) -> str:
    """At most `limit` bytes of what every store takes; a long text keeps its beginning and its end."""
    data = _storable(text if len(text) <= 2 * limit else text[:limit] + text[-limit:])
    if len(data) <= limit and len(text) <= limit:
        return data.decode()
    if limit < TRACEBACK_LIMIT // 16:
        return data[: limit - 3].decode(errors="ignore") + "…"
    head = limit // 4
    tail = limit - head - len(_LEFT_OUT.encode())
    return data[:head].decode(errors="ignore") + _LEFT_OUT + data[-tail:].decode(errors="ignore")


def _storable(text: str) -> bytes:
    return str.__str__(text).replace("\0", "\\0").encode("utf-8", "backslashreplace")


def _stack(error: BaseException) -> str:
    """The frames alone: no code of the exception runs for them, and no file is read that would show their lines."""
    trace = _task_part(error)
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n')
        trace = trace.tb_next
    return shorten("".join(frames[-100:]) + cause_of(error), TRACEBACK_LIMIT)


def _full(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, _task_part(error))
    return shorten("".join(lines), TRACEBACK_LIMIT)


def _task_part(error: BaseException) -> TracebackType | None:
    """The traceback without the frames at its top that are chong's own, or the event loop's."""
    trace = traceback_of(error)
    while trace is not None and trace.tb_frame.f_globals.get("__package__") in _CALLERS and trace.tb_next:
        trace = trace.tb_next
    return trace


class _Budget:
    """A timer over code that is not ours. The first alarm raises; who swallows that gets no second chance."""

    def __init__(self, last_resort: Callable[[], None]) -> None:
        self._last_resort = last_resort
        self._alarms = 0

    def __enter__(self) -> Self:
        signal(SIGALRM, self._on_alarm)
        pthread_sigmask(SIG_UNBLOCK, {SIGALRM})
        return self

    def __exit__(self, *_: object) -> None:
        setitimer(ITIMER_REAL, 0)
        signal(SIGALRM, SIG_IGN)

    def spend(self, form: Callable[[], Text], otherwise: Text) -> Text:
        self._alarms = 0
        try:
            setitimer(ITIMER_REAL, BUDGET, BUDGET / 4)
            formed = form()
            setitimer(ITIMER_REAL, 0)
        except BaseException:  # noqa: BLE001 -- whatever it raises, the failure is told
            setitimer(ITIMER_REAL, 0)
            return otherwise
        return formed

    def _on_alarm(self, _signal: int, _frame: FrameType | None) -> None:
        self._alarms += 1
        if self._alarms > 1:
            self._last_resort()
        raise _OutOfTime
