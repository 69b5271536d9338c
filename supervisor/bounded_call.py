"""A process for which nobody can wait: it has a limited time and a session of its own, and nothing of it is left."""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from chong.supervisor.bounded import NOT_FOUND, NOT_RUN, TIMED_OUT

MEANINGS = {NOT_FOUND: ", as of a program that is not there", NOT_RUN: ", as of a program that cannot be run"}
"""Said by a shell of what it was to run, too."""

CLOSE_SECONDS = 2.0
"""How long one may take to end with all that it has started, before it is killed."""


class BoundedCall:
    """One process at a time. For one thread at a time, but for `pids`.

    seconds: how long one may take. The limit holds whatever becomes of this process.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pid = 0
        self._starting = threading.Lock()
        """Held while there is a process whose pid is not known yet."""
        self._began = 0.0

    @property
    def pids(self) -> set[int]:
        """The process under way, for whoever reaps what nobody waits for: also one just being started."""
        with self._starting:
            return {self._pid} - {0}

    @property
    def is_open(self) -> bool:
        """Whether one is under way."""
        return self._pid != 0

    def begin(self, command: Sequence[str], environment: Mapping[str, str], *, reading: int, writing: int) -> None:
        """Start one, with these descriptors as its input and output, and no place for its errors; OSError."""
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_DUP2, writing, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        words = [sys.executable, "-P", "-m", "chong.supervisor.bounded", f"{self._seconds:g}", *command]
        with self._starting:
            self._pid = os.posix_spawn(words[0], words, environment, file_actions=actions, setsid=True, setsigmask=())
        self._began = time.monotonic()

    def ended(self) -> str | None:
        """None while it goes on; then what went wrong, nothing when nothing did."""
        try:
            ended = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._pid = 0
            return "its exit status was lost"
        if ended is None:
            return None
        self._reap()
        if ended.si_code != os.CLD_EXITED:
            return f"it was killed by signal {ended.si_status}"
        if ended.si_status == TIMED_OUT and time.monotonic() - self._began >= self._seconds:
            return f"it took longer than {self._seconds:g} s, and was killed"
        return f"exit {ended.si_status}{MEANINGS.get(ended.si_status, '')}" if ended.si_status else ""

    def close(self) -> None:
        """End the one under way: asked, it ends all that it has started."""
        if not self._pid:
            return
        self._signal(signal.SIGTERM)
        end = time.monotonic() + CLOSE_SECONDS
        with suppress(ChildProcessError):  # somebody else has reaped it
            while os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() > end:
                    self._signal(signal.SIGKILL)
                time.sleep(0.005)
        self._reap()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def _reap(self) -> None:
        """Its group first: as long as it is a zombie, the number is nobody else's."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        pid, self._pid = self._pid, 0
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
