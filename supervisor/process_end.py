"""How the supervisor learns by its own look that a process has ended."""

import os

from chong.store.model import Usage
from chong.supervisor.verdict import ProcessEnd
from chong.worker.kernel import used_by


def exit_of(pidfd: int) -> ProcessEnd | None:
    """The status, left with the zombie; unknown when somebody else has reaped it, None while the process lives."""
    try:
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return ProcessEnd()
    if found is None:
        return None
    used = used_by(pidfd)
    usage = Usage(used.cpu_seconds, None, used.max_rss_bytes) if used is not None else None
    if found.si_code == os.CLD_EXITED:
        return ProcessEnd(code=found.si_status, usage=usage)
    return ProcessEnd(signal=found.si_status, usage=usage)


def reap(kind: int, number: int) -> None:
    """A dead child, named by `os.P_PIDFD` or `os.P_PID`."""
    try:
        os.waitid(kind, number, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return  # somebody else did
