"""The operator's command that hears of alerts: one at a time, each for a limited time, nobody waits for it."""

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chong.supervisor.bounded import NOT_FOUND, NOT_RUN
from chong.supervisor.environment import OWN

SECONDS = 30.0
"""How long one call may take."""
WAITING = 1000
"""So many calls may wait; what comes then is told to the log alone."""
MEANINGS = {NOT_FOUND: ", as of a program that is not there", NOT_RUN: ", as of a program that cannot be run"}
"""Said by a shell of what it was to run, too."""
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
        self._seconds = seconds
        self._waiting: deque[bytes] = deque()
        self._pid = 0
        self._starting = threading.Lock()
        """Held while there is a process whose pid is not known yet."""
        self._began = 0.0

    @property
    def pids(self) -> set[int]:
        """The process of the call under way, for whoever reaps what nobody waits for: also one just being started."""
        with self._starting:
            return {self._pid} - {0}

    def put(self, message: Mapping[str, Any]) -> None:
        if not self._command:
            return
        if len(self._waiting) >= WAITING:
            self._on_failure(f"{WAITING} calls wait already, this one is left out")
        else:
            self._waiting.append(json.dumps(message).encode() + b"\n")

    def turn(self) -> float:
        """Look after the call under way, begin the next one; the seconds until the next turn."""
        if self._pid and not self._has_ended():
            return BUSY_SECONDS
        if not self._waiting:
            return IDLE_SECONDS
        self._begin(self._waiting.popleft())
        return BUSY_SECONDS

    def close(self) -> None:
        """End the call under way; those that wait are left out."""
        if self._pid:
            self._kill()
            self._reap(0)

    def _begin(self, message: bytes) -> None:
        try:
            reading, writing = os.pipe()
        except OSError as error:
            self._on_failure(f"it cannot be started: {error.strerror}")
            return
        try:
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                pipe.write(message)  # far less than a pipe holds
            actions = [
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ]
            words = [sys.executable, "-P", "-m", "chong.supervisor.bounded", f"{self._seconds:g}", *self._command]
            # Without chong's own variables and those of PostgreSQL's library, which may hold the store's password.
            environment = {name: value for name, value in os.environ.items() if not name.startswith((OWN, "PG"))}
            with self._starting:
                self._pid = os.posix_spawn(
                    words[0], words, environment, file_actions=actions, setsid=True, setsigmask=()
                )
            self._began = time.monotonic()
        except OSError as error:
            self._on_failure(f"it cannot be started: {error.strerror}")
        finally:
            os.close(reading)

    def _has_ended(self) -> bool:
        try:
            ended = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._pid = 0
            self._on_failure("its exit status was lost")
            return True
        if ended is None:
            return False
        # Its group first: as long as it is a zombie, the number is nobody else's.
        self._kill()
        if ended.si_code == os.CLD_KILLED and time.monotonic() - self._began >= self._seconds:
            self._on_failure(f"it took longer than {self._seconds:g} s, and was killed")
        elif ended.si_code != os.CLD_EXITED:
            self._on_failure(f"it was killed by signal {ended.si_status}")
        elif ended.si_status:
            self._on_failure(f"exit {ended.si_status}{MEANINGS.get(ended.si_status, '')}")
        self._reap(os.WNOHANG)
        return True

    def _kill(self) -> None:
        with suppress(ProcessLookupError):  # somebody else has reaped it, and all of its group is gone
            os.killpg(self._pid, signal.SIGKILL)

    def _reap(self, options: int) -> None:
        pid, self._pid = self._pid, 0
        with suppress(ChildProcessError):
            os.waitpid(pid, options)
