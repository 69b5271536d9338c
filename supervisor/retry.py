"""Whether a failed attempt is followed by another one, and how long that waits."""

import random
from datetime import datetime

from chong.store.model import FailureKind, TaskSnapshot
from chong.worker.options import RETRY_KINDS, Backoff, Options


def is_retried(kind: FailureKind, options: Options, word: bool | None) -> bool:
    """Whether the definition lets a failure of this kind be followed by a further attempt, if one is left.

    word: what the worker said of its exception. Classes are compared there, where the task's code is.
    """
    if kind is FailureKind.EXCEPTION and word is not None:
        return word
    is_listed = options.retry_on is None or kind in options.retry_on
    return kind in RETRY_KINDS and is_listed and kind not in options.no_retry_on


def retry_wait(task: TaskSnapshot, rule: Backoff) -> float:
    """Seconds from the failure of this attempt to the next one; the same whoever computes it, and whenever."""
    return backoff(rule, task.attempts_used, task.run)


def retry_left(task: TaskSnapshot, rule: Backoff, now: datetime) -> float:
    """How much of that is left; a clock that was set back since the failure makes it no longer."""
    return retry_wait(task, rule) - max(0.0, (now - task.status_changed_at).total_seconds())


def backoff(rule: Backoff, tries: int, seed: str) -> float:
    """Seconds before the next try after so many, by `seed` some longer and some shorter."""
    try:
        grown = rule.first * rule.factor ** (tries - 1)
    except OverflowError:
        grown = rule.most if rule.first else 0.0
    return min(rule.most, grown) * random.Random(seed).uniform(1 - rule.jitter, 1 + rule.jitter)
