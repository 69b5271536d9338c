"""`Retry`: a task's own word that it wants a further attempt, and when."""

from typing import Any

from chong.worker.duration import parse_duration
from chong.worker.failure import MESSAGE_LIMIT, shorten
from chong.worker.options import Duration

MOST_WAIT = 30 * 86_400.0
"""Seconds that an attempt may be put off: so long its parameters and its state lie on the node."""


class Retry(Exception):  # noqa: N818 -- no error, a wish
    """Raised by a task: end this attempt, and begin another one after a while.

    after: a length of time of at most 30 days, such as 90 or "10m"; None for what the task's `backoff` says.
    reason: what the failure says, a text of at most 500 characters. Raises ValueError for anything else.

    The attempt counts: when no further one is left by `retries`, the task fails.
    """

    __module__ = "chong.worker"  # where authors find it, and so what a failure's cause calls it
    __slots__ = ("after", "reason")

    def __init__(self, after: Duration | None = None, reason: str | None = None) -> None:
        self.after = None if after is None else _wait(after)
        self.reason = None if reason is None else _text(reason)
        super().__init__(self.reason or "the task asks for another attempt")

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is made anew from its text, in a pool of processes for example.
        return type(self), (self.after, self.reason)


def asked_by(error: BaseException) -> dict[str, Any] | None:
    """What goes with the failure of a task that left with `Retry`; None for any other exception."""
    if not issubclass(type(error), Retry):
        return None
    try:
        after = Retry.__dict__["after"].__get__(error)  # past whatever a subclass makes of its attributes
    except AttributeError:  # one that does not call our __init__
        after = None
    is_known = type(after) is float and 0 <= after <= MOST_WAIT
    return {"retry": True, "retry_after": after if is_known else None}


def _wait(after: Duration) -> float:
    try:
        seconds = parse_duration(after)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"Retry: after: {error}") from None
    if seconds > MOST_WAIT:
        raise ValueError(f"Retry: after: expected at most {MOST_WAIT / 86_400:g}d, got {after!r}")
    return seconds


def _text(reason: str) -> str:
    if not isinstance(reason, str):
        raise ValueError(f"Retry: reason: expected text, got {type(reason).__name__}")
    return shorten(reason, MESSAGE_LIMIT)
