"""Task code that sends, ignores and outsits signals."""

import ctypes
import os
import signal
import sys
import time

from bodies import body, wait_for_the_end

from chong.worker import TaskContext


@body("alarm")
def alarm(_: TaskContext) -> None:
    signal.alarm(1)
    wait_for_the_end()


@body("stops itself")
def stops_itself(ctx: TaskContext) -> str:
    os.kill(os.getpid(), signal.SIGSTOP)
    return "continued"


@body("swallows every exception")
def swallows(_: TaskContext) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


@body("sleeps in the kernel")
def sleeps_in_the_kernel(_: TaskContext) -> None:
    """The parent of a vfork waits in state D; SIGTERM does not reach it, SIGKILL does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    libc = ctypes.CDLL(None)
    if libc.vfork() == 0:
        libc.sleep(600)
        libc._exit(0)


@body("ends its group")
def ends_its_group(_: TaskContext) -> None:
    os.killpg(0, signal.SIGTERM)
    wait_for_the_end()
