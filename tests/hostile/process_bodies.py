"""Task code that starts threads and processes, and leaves them."""

import atexit
import os
import signal
import sys
import threading
import time
from multiprocessing.pool import Pool

from bodies import body, wait_for_the_end

from chong.worker import TaskContext


@body("64 threads")
def many_threads(_: TaskContext) -> str:
    for _turn in range(64):
        threading.Thread(target=wait_for_the_end, daemon=True).start()
    return "with 64 threads"


@body("threads that do not end")
def threads_that_do_not_end(_: TaskContext) -> str:
    threading.Thread(target=wait_for_the_end).start()
    return "kept"


@body("threads that shout")
def threads_that_shout(_: TaskContext) -> str:
    def shout() -> None:
        while True:
            print("still here")  # noqa: T201

    for _turn in range(4):
        threading.Thread(target=shout, daemon=True).start()
    time.sleep(0.1)
    return "over them"


@body("a thread that raises")
def a_thread_that_raises(_: TaskContext) -> str:
    def fail() -> None:
        raise ValueError("in a thread")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    return "all the same"


@body("exit handler that raises")
def exit_handler_that_raises(_: TaskContext) -> str:
    atexit.register(lambda: sys.exit("in an exit handler"))
    return "all the same"


@body("exit handler that leaves")
def exit_handler_that_leaves(_: TaskContext) -> str:
    atexit.register(os._exit, 9)
    return "all the same"


@body("fork bomb")
def fork_bomb(_: TaskContext) -> str:
    """Bounded by count: 4 generations of 3 children each, half of them in sessions of their own."""
    for generation in range(4):
        for child in range(3):
            if os.fork() == 0:
                if child % 2:
                    os.setsid()
                break
        else:
            wait_for_the_end()
        if generation == 3:
            wait_for_the_end()
    return "never"


@body("daemons")
def daemons(_: TaskContext) -> str:
    """Five that left group, session and parent, and hold log and channel open."""
    for _turn in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                wait_for_the_end()
            os._exit(0)
        os.wait()
    return "with daemons"


@body("forked twins")
def forked_twins(ctx: TaskContext) -> str:
    """Both return; only one of them is the worker."""
    os.fork()
    ctx.checkpoint(done=1)
    return "one of two"


@body("a pool killed half-way")
def a_pool_killed_half_way(_: TaskContext) -> None:
    pool = Pool(4)
    pool.map_async(time.sleep, [600] * 4)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


@body("binary output")
def binary_output(_: TaskContext) -> str:
    os.write(1, bytes(range(256)) * 4096)
    print("\ud800\0\x1b[2J")  # noqa: T201
    return "written"
