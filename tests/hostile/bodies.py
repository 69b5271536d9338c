"""Bodies of hostile tasks by their names; the modules `*_bodies` enter theirs here."""

import time
from collections.abc import Callable
from typing import Any

from chong.worker import TaskContext

MIB = 1024 * 1024
Body = Callable[[TaskContext], Any]
BODIES: dict[str, Body] = {}


def body(name: str) -> Callable[[Body], Body]:
    def enter(function: Body) -> Body:
        BODIES[name] = function
        return function

    return enter


def wait_for_the_end() -> None:
    while True:
        time.sleep(600)
