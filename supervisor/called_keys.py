"""The keys of definitions whose `keys=` is a function: asked for again and again, in processes of their own.

Never in this process: the function may hang, crash, or eat memory. One is called at a time, whoever has waited longest.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from chong.supervisor.bounded_call import BoundedCall

SECONDS = 30.0
"""How long one call may take, its module's import included."""
EVERY_SECONDS = 300.0
"""Between two calls for one definition."""
AGAIN_SECONDS = 60.0
"""After a call that has failed."""
BUSY_SECONDS = 0.05
IDLE_SECONDS = 1.0
MOST_BYTES = 256 * 1024**2
"""Of an answer: more than the most keys of the greatest length."""


class Wanted(NamedTuple):
    """A definition whose keys are called for; the module is the one that defines it."""

    name: str
    module: str


@dataclass(frozen=True, slots=True)
class Found:
    """What one call came to: the keys, or why there are none."""

    keys: tuple[str, ...] = ()
    error: str = ""


class CalledKeys:
    """`want` may be called from any thread; `turn` and `close` from one at a time. `on_found` must only hand over.

    environment: of the processes.
    """

    def __init__(self, environment: Callable[[], dict[str, str]], on_found: Callable[[Wanted, Found], None]) -> None:
        self._environment = environment
        self._on_found = on_found
        self._call = BoundedCall(SECONDS)
        self._changed = threading.Lock()
        self._due: dict[Wanted, float] = {}
        """By the monotonic clock."""
        self._under_way: tuple[Wanted, int] | None = None
        """And the descriptor of its answer."""

    @property
    def pids(self) -> set[int]:
        """The process under way, for whoever reaps what nobody waits for."""
        return self._call.pids

    def want(self, definitions: Iterable[Wanted]) -> None:
        """From now on the keys of these and no others, and of each of them at once: its code may be new."""
        with self._changed:
            self._due = dict.fromkeys(definitions, 0.0)

    def turn(self) -> float:
        """Look after the call under way, begin the next one; the seconds until the next turn."""
        if self._under_way is not None:
            ended = self._call.ended()
            if ended is None:
                return BUSY_SECONDS
            self._end(ended)
        wanted = self._next()
        if wanted is None:
            return IDLE_SECONDS
        try:
            self._begin(wanted)
        except OSError as error:
            self._settle(wanted, Found(error=f"it cannot be called: {error.strerror}"))
        return BUSY_SECONDS

    def close(self) -> None:
        self._call.close()
        if self._under_way is not None:
            os.close(self._under_way[1])
            self._under_way = None

    def _next(self) -> Wanted | None:
        now = time.monotonic()
        with self._changed:
            wanted = min(self._due, key=self._due.__getitem__, default=None)
            return wanted if wanted is not None and self._due[wanted] <= now else None

    def _begin(self, wanted: Wanted) -> None:
        path = json.dumps([place for place in sys.path if isinstance(place, str)])
        command = [sys.executable, "-P", "-m", "chong.worker.called_keys", path, wanted.module, wanted.name]
        answer = os.memfd_create("chong-keys")
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._call.begin(command, self._environment(), reading=nothing, writing=answer)
        except OSError:
            os.close(answer)
            raise
        finally:
            os.close(nothing)
        self._under_way = wanted, answer

    def _end(self, fault: str) -> None:
        assert self._under_way is not None, "one was under way"
        wanted, answer = self._under_way
        self._under_way = None
        try:
            found = Found(error=fault) if fault else _read(answer)
        finally:
            os.close(answer)
        self._settle(wanted, found)

    def _settle(self, wanted: Wanted, found: Found) -> None:
        with self._changed:
            if wanted not in self._due:
                return
            wait = AGAIN_SECONDS if found.error else EVERY_SECONDS
            self._due[wanted] = time.monotonic() + wait
        self._on_found(wanted, found)


def _read(answer: int) -> Found:
    """What the process has said; it was user code's, and may be anything."""
    try:
        content = json.loads(os.pread(answer, MOST_BYTES, 0))
        if "error" in content:
            return Found(error=str(content["error"])[:500])
        keys = tuple(content["keys"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return Found(error="it ended without an answer")
    return Found(keys) if all(isinstance(key, str) for key in keys) else Found(error="it ended without an answer")
