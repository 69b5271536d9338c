"""How the supervisor learns of ends by its own look at a process."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

from chong.supervisor.process_end import exit_of
from chong.supervisor.verdict import ProcessEnd


def test_a_living_process_has_no_end_and_a_dead_one_keeps_its_status():
    """Looked at for nothing, it must not be taken for dead; the status is left with the zombie."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pidfd = os.pidfd_open(child.pid)
    try:
        assert exit_of(pidfd) is None
        child.kill()
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        first, second = exit_of(pidfd), exit_of(pidfd)
        assert first == second
        assert replace(first, usage=None) == ProcessEnd(signal=signal.SIGKILL)
    finally:
        child.kill()
        child.communicate()
    assert exit_of(pidfd) == ProcessEnd()
    os.close(pidfd)
