"""The leash: a pipe without data. When its last write end closes, the kernel kills each worker's group.

Only supervisor and forkserver hold write ends. Each worker opens a read end of its own, with a SIGKILL on input or
hang-up for its process group: this needs no code of the worker, which may be frozen or loop in C.
"""

import fcntl
import os
import select
import signal
from os import _exit, getpid

from chong.worker.wire import LEASH_FD


def make_leash() -> int:
    """The write end; no read end is open before the first worker's."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.close(read_end)
    return write_end


def arm_leash(write_end: int) -> None:
    """In the worker, after setsid: descriptor 4 becomes its read end. The caller then closes all copies of the
    write end, and only then may `check_leash` look: in any other order a death in between would go unseen.
    """
    own = os.open(f"/proc/self/fd/{write_end}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.dup2(own, LEASH_FD, inheritable=False)
    fcntl.fcntl(LEASH_FD, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(LEASH_FD, fcntl.F_SETOWN, -getpid())
    fcntl.fcntl(LEASH_FD, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)


def check_leash() -> None:
    """Both holders may have died before it was armed."""
    poll = select.poll()
    poll.register(LEASH_FD, 0)
    if poll.poll(0):
        _exit(0)
