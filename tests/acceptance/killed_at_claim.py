"""`chong-supervisor` that is killed when it has claimed its so-many-th firing: run as a script.

Its arguments are that number, and the whole command that it takes the place of.
"""

import os
import runpy
import signal
import sys
from itertools import count
from typing import Any

from chong.store.postgres import PostgresTaskStore

most, module = int(sys.argv[1]), sys.argv.index("-m") + 1
claim_firing, claims = PostgresTaskStore.claim_firing, count(1)


def killed_at_claim(self: PostgresTaskStore, *firing: Any, **by: Any) -> bool:
    won = claim_firing(self, *firing, **by)
    if won and next(claims) == most:
        os.kill(os.getpid(), signal.SIGKILL)
    return won


PostgresTaskStore.claim_firing = killed_at_claim
sys.argv = sys.argv[module:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
