"""Whether a failed attempt is followed by another one, and how long that waits."""

import random
from dataclasses import replace
from datetime import datetime

from chong.store.model import Failure, FailureKind, TaskSnapshot
from chong.supervisor.events import RetryAsked
from chong.worker.failure import MESSAGE_LIMIT
from chong.worker.options import RETRY_KINDS, Backoff, Options


def is_retried(kind: FailureKind, options: Options, word: bool | None) -> bool:
    """Whether the definition lets a failure of this kind be followed by a further attempt, if one is left.

    word: what the worker said of its exception. Classes are compared there, where the task's code is.
    """
    if kind is FailureKind.EXCEPTION and word is not None:
        return word
    is_listed = options.retry_on is None or kind in options.retry_on
    return kind in RETRY_KINDS and is_listed and kind not in options.no_retry_on


def retry_wait(task: TaskSnapshot, rule: Backoff, asked: RetryAsked | None = None) -> float:
    """Seconds from the failure of this attempt to the next one; the same whoever computes it, and whenever."""
    if asked is not None and asked.after is not None:
        return asked.after
    return backoff(rule, task.attempts_used, task.run)


def retry_left(task: TaskSnapshot, rule: Backoff, now: datetime) -> float:
    """How much of that is left; a clock that was set back since the failure makes it no longer.

    An older version stores no due time, and leaves one that it finds from before.
    """
    due, since = task.due_at, task.status_changed_at
    wait = retry_wait(task, rule) if due is None or due < since else (due - since).total_seconds()
    return wait - max(0.0, (now - since).total_seconds())


def refused_retry(failure: Failure, task: TaskSnapshot) -> Failure:
    """The failure of a task that asked for one more attempt than there are."""
    most = task.max_attempts
    why = f"all {most} attempts are used up" if most > 1 else "expected retries of at least 1, got 0"
    message = failure.message.encode()[: MESSAGE_LIMIT - len(why) - 2].decode(errors="ignore")
    return replace(failure, message=f"{message}; {why}")


def backoff(rule: Backoff, tries: int, seed: str) -> float:
    """Seconds before the next try after so many, by `seed` some longer and some shorter."""
    try:
        grown = rule.first * rule.factor ** (tries - 1)
    except OverflowError:
        grown = rule.most if rule.first else 0.0
    return min(rule.most, grown) * random.Random(seed).uniform(1 - rule.jitter, 1 + rule.jitter)
