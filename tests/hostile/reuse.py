"""Gives process ids that are free to sleepers, in its own pid namespace: `reuse.py PID ...`, till it is killed."""

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    for wanted in map(int, sys.argv[1:]):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(wanted - 1))
        pid = os.fork()
        if pid == 0:
            os.execve("/bin/sleep", ["sleep", "600"], {})
        if pid != wanted:
            sys.exit(f"expected the pid {wanted}, got {pid}")
    print("reused", flush=True)  # noqa: T201
    signal.pause()
