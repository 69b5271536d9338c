"""Runs a command for a limited time: `python -m chong.supervisor.bounded SECONDS COMMAND...`, in a session of its own.

A process between, so that the limit holds whatever becomes of the supervisor, which has threads and does not fork. Its
exit code is the command's, 128 + N after signal N, and as of a shell 127 when there is no such program, 126 when it
cannot be run; past its time everything in the process group gets SIGKILL, this process too.
"""

import os
import signal
import subprocess
import sys

NOT_RUN = 126
NOT_FOUND = 127


def main() -> int:
    seconds, *command = sys.argv[1:]
    try:
        child = subprocess.Popen(command)  # noqa: S603 - the operator has configured it
    except FileNotFoundError:
        return NOT_FOUND
    except OSError:
        return NOT_RUN
    try:
        code = child.wait(float(seconds))
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)
        raise
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
