"""Runs a command for a limited time: `python -m chong.supervisor.bounded SECONDS COMMAND...`, in a session of its own.

A process between, so that the limit holds whatever becomes of the supervisor, which has threads and does not fork. Its
exit code is the command's, 128 + N after signal N, as of a shell 127 when there is no such program and 126 when it
cannot be run, and as of timeout(1) 124 when its time was over. Whatever the command has started is ended with it, in
whichever session that has hidden: orphans come to this process.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from chong.worker.kernel import become_subreaper

TIMED_OUT = 124
NOT_RUN = 126
NOT_FOUND = 127
END_SECONDS = 1.0
"""How long the killed may take to be gone; those that the kernel does not let go are left alone."""


def main() -> int:
    seconds, *command = sys.argv[1:]
    become_subreaper()
    # Whoever wants the end of this wants that of all it has started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return _run(command, float(seconds))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_children()


def _run(command: list[str], seconds: float) -> int:
    try:
        child = subprocess.Popen(command)  # noqa: S603 - the operator, or the task's author, has configured it
    except FileNotFoundError:
        return NOT_FOUND
    except OSError:
        return NOT_RUN
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    return code if code >= 0 else 128 - code


def _end_children() -> None:
    """Again and again: what dies leaves its own children to us."""
    end = time.monotonic() + END_SECONDS
    while (pids := _children()) and time.monotonic() < end:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        time.sleep(0.002)


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())
