"""Calls of user code, of which nothing goes on when they are over: a task's function, a module's import, exit handlers.

What it has set up to be called later may raise in any code of Python's. A callback of `sys.monitoring` even does so
again and again: in every line, in the `except` around it, and in what would switch it off. So the call and all that
follows it at once are steps of a chain that runs in C, and what a step raises ends that step alone.
"""

import builtins
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from ctypes import PYFUNCTYPE
from functools import partial
from operator import call
from signal import ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, setitimer
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace
from types import MappingProxyType
from typing import Any

_OURS = dict(vars(builtins))
_LEFT = dict(_OURS)
"""As the last call of user code has left them; ours are in their places again."""
_Anything = BaseException  # a name that is not looked up among the builtins, which user code may have replaced
_step = PYFUNCTYPE(None)
"""A function as C calls it: what it raises is written to standard error, as for a `__del__`, and goes no further."""


class EndLostError(Exception):
    """What user code came to was lost: something that it had set up raised while that was taken down."""

    __module__ = "chong.worker"


def run_user_code(
    act: Callable[[], Any], its_builtins: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Any, BaseException | None]:
    """What it returns, or raises. Afterwards no tracer, no timer, and none of its builtins is left.

    its_builtins: those that its module had replaced.
    """
    end = _End(act)
    limit = _step(partial(setrecursionlimit, getrecursionlimit()))
    give = _step(partial(vars(builtins).update, its_builtins))
    deque(map(call, (give, _step(end.reach), limit, *_QUIETING)), 0)
    return end.value, end.error


def replaced_builtins() -> dict[str, Any]:
    """What the last call of user code had put in the places of builtins. What it added beside them stays there."""
    return {name: value for name, value in _LEFT.items() if name in _OURS and value is not _OURS[name]}


class _End:
    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.value: Any = None
        self.error: BaseException | None = EndLostError(
            "what the task has set up raised wherever its end was taken down; the run's log shows it"
        )

    def reach(self) -> None:
        try:
            self.value = self._act()
            self.error = None
        except _Anything as raised:
            self.error = raised


def _monitors() -> Iterator[Callable[[], object]]:
    """From Python 3.12 on. Without callbacks it does not matter which events are on, nor for which code."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    kinds = {kind for kind in vars(monitoring.events).values() if isinstance(kind, int) and kind.bit_count() == 1}
    for tool in range(6):
        for kind in kinds:
            yield partial(monitoring.register_callback, tool, kind, None)


_QUIETING = tuple(
    map(
        _step,
        (
            *_monitors(),
            partial(setprofile, None),
            partial(settrace, None),
            *(partial(setitimer, timer, 0) for timer in (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)),
            partial(_LEFT.update, vars(builtins)),
            partial(vars(builtins).update, _OURS),
        ),
    )
)
