"""Traces a process, with options, so that its death is kept from everybody else, and looks away: `tracer.py PID N`."""

import ctypes
import signal
import sys

PTRACE_SEIZE = 0x4206
PTRACE_O_TRACEEXIT = 0x40


def seize(pid: int, options: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    if libc.ptrace(PTRACE_SEIZE, pid, None, options) == -1:
        raise OSError(ctypes.get_errno(), f"process {pid} cannot be traced")


if __name__ == "__main__":
    seize(int(sys.argv[1]), int(sys.argv[2]))
    print("traced", flush=True)  # noqa: T201
    signal.pause()
