"""Which forkserver alone can have forked an attempt: its claim says so, and is stored before anybody is asked.

A later term goes by it. Where the forkserver that is named there answers, had that term, and does not know the run,
the run was never forked; however many other generations the term had, and whatever became of them.
"""

import os
import re

from chong.store.model import Transition
from chong.store.states import Status

_CLAIM = re.compile(r".+\.start\.(\d+)\.[0-9a-f]+")


def claim_id(run: str, generation: int) -> str:
    """The event id of the change to `starting`."""
    return f"{run}.start.{generation}.{os.urandom(8).hex()}"


def claim_of(history: list[Transition]) -> tuple[str, int] | None:
    """The term and the generation of the current attempt's claim; None when it does not say.

    The term that claimed it alone can have asked for a worker, whoever adopted it since.
    """
    step = next((step for step in reversed(history) if step.target is Status.STARTING), None)
    told = _CLAIM.fullmatch(step.event_id) if step is not None else None
    return (step.actor, int(told[1])) if step is not None and told is not None else None
