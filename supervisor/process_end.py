"""How the supervisor learns that a process has ended: by its own look, or by a forkserver's word."""

import os
from datetime import UTC, datetime

from chong.supervisor.generation import Message
from chong.supervisor.verdict import ProcessEnd


def told_exit(message: Message) -> ProcessEnd:
    """An end as a forkserver tells it, one of another version perhaps not when."""
    at = message.body.get("at")
    when = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else None
    return ProcessEnd(message.body.get("code"), message.body.get("signal"), when)


def exit_of(pidfd: int) -> ProcessEnd | None:
    """The status, left with the zombie; unknown when somebody else has reaped it, None while the process lives."""
    try:
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return ProcessEnd()
    if found is None:
        return None
    return ProcessEnd(code=found.si_status) if found.si_code == os.CLD_EXITED else ProcessEnd(signal=found.si_status)


def reap(pidfd: int) -> None:
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return  # somebody else did
