"""`chong-supervisor` that is killed in its nth call of a method of its store: run as a script.

Its arguments are the method, the number, the moment, and the whole command that it takes the place of. The moment is
`before` the call, `after` it, or `during` it: an instant while the server works on it that method and number decide, so
that a failure is repeated by its arguments. With `won` it is after the nth call that was granted.
"""

import os
import random
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from chong.store.postgres import PostgresTaskStore
from chong.store.sqlite import SqliteTaskStore

method, number, moment = sys.argv[1], int(sys.argv[2]), sys.argv[3]
module = sys.argv.index("-m") + 1
calls = count(1)
LONGEST = 0.01
DICE = random.Random(f"{method} {number}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon() -> None:
    time.sleep(DICE.uniform(0, LONGEST))
    die()


def deadly(called: Callable[..., Any]) -> Callable[..., Any]:
    def killed(*args: Any, **facts: Any) -> Any:
        if moment in {"won", "frozen"}:
            answer = called(*args, **facts)
            granted = any(answer) if isinstance(answer, list) else answer
            if granted and next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL if moment == "won" else signal.SIGSTOP)
            return answer
        is_last = next(calls) == number
        if is_last and moment == "before":
            die()
        if is_last and moment == "during":
            threading.Thread(target=die_soon).start()
        answer = called(*args, **facts)
        if is_last and moment == "after":
            die()
        return answer

    return killed


for store in (SqliteTaskStore, PostgresTaskStore):
    setattr(store, method, deadly(getattr(store, method)))
sys.argv = sys.argv[module:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
