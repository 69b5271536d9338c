"""A forkserver as a child process: started without a fork of this process, and ended on purpose or let go."""

import os
import signal
from collections.abc import Mapping

LISTENER = 3
"""The descriptor number of the one thing that a child inherits beside its standard streams."""


class Child:
    """Not `subprocess.Popen`: that complains of a child which is left alive on purpose, for the next term."""

    def __init__(self, command: list[str], environment: Mapping[str, str], *, listener: int, log: int) -> None:
        """Run `command` in a session of its own, its output in `log`, the listening socket as descriptor 3."""
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
            (os.POSIX_SPAWN_DUP2, listener, LISTENER),
        ]
        self.pid = os.posix_spawn(command[0], command, environment, file_actions=actions, setsid=True)
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:  # no descriptor is left: nobody would hear of it, nor of its end
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise

    def has_ended(self) -> bool:
        """Whether it is dead; then it is reaped, too, and what a task module had started beside it is ended."""
        if self._pidfd < 0:
            return True
        try:
            ended = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if ended:
                self._reap()
        except ChildProcessError:
            ended = True  # somebody else has reaped it
        if ended:
            self.let_go()
        return ended

    def end(self) -> None:
        """SIGKILL, and wait."""
        if self._pidfd >= 0:
            self.kill()
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
            self._reap()
            self.let_go()

    def kill(self) -> None:
        if self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _reap(self) -> None:
        """Its group first: as long as it is a zombie, the number is nobody else's."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)

    def let_go(self) -> None:
        """Have nothing more to do with it."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
