"""The operator's command that hears of alerts: one at a time, each for a limited time, nobody waits for it."""

import json
import os
import shlex
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from chong.supervisor.bounded_call import BoundedCall
from chong.supervisor.environment import OWN

SECONDS = 30.0
"""How long one call may take."""
WAITING = 1000
"""So many calls may wait; what comes then is told to the log alone."""
BUSY_SECONDS = 0.1
IDLE_SECONDS = 1.0

OnFailure = Callable[[str], None]


class AlertHook:
    """`put` may be called from any thread; `turn` and `close` start and end the processes, from one thread at a time.

    `on_failure` hears what went wrong with a call, and must only hand over.
    """

    def __init__(self, command: str | None, *, on_failure: OnFailure, seconds: float = SECONDS) -> None:
        self._command = shlex.split(command) if command else []
        self._on_failure = on_failure
        self._waiting: deque[bytes] = deque()
        self._call = BoundedCall(seconds)

    @property
    def pids(self) -> set[int]:
        """The process of the call under way, for whoever reaps what nobody waits for."""
        return self._call.pids

    def put(self, message: Mapping[str, Any]) -> None:
        if not self._command:
            return
        if len(self._waiting) >= WAITING:
            self._on_failure(f"{WAITING} calls wait already, this one is left out")
        else:
            self._waiting.append(json.dumps(message).encode() + b"\n")

    def turn(self) -> float:
        """Look after the call under way, begin the next one; the seconds until the next turn."""
        if self._call.is_open:
            ended = self._call.ended()
            if ended is None:
                return BUSY_SECONDS
            if ended:
                self._on_failure(ended)
        if not self._waiting:
            return IDLE_SECONDS
        try:
            self._begin(self._waiting.popleft())
        except OSError as error:
            self._on_failure(f"it cannot be started: {error.strerror}")
        return BUSY_SECONDS

    def close(self) -> None:
        """End the call under way; those that wait are left out."""
        self._call.close()

    def _begin(self, message: bytes) -> None:
        # Without chong's own variables and those of PostgreSQL's library, which may hold the store's password.
        environment = {name: value for name, value in os.environ.items() if not name.startswith((OWN, "PG"))}
        reading, writing = os.pipe()
        try:
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                pipe.write(message)  # far less than a pipe holds
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is wanted
                self._call.begin(self._command, environment, reading=reading, writing=nowhere.fileno())
        finally:
            os.close(reading)
