"""Task code that meets a limit: of memory, time, size, descriptors, depth."""

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Any

from bodies import MIB, body

from chong.worker import TaskContext

HOARD: list[Any] = []


def hoard() -> None:
    """Every byte that the limit leaves, kept: whoever tells of it has nothing to allocate from."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, used + 64 * MIB))
    for size in (MIB, 4096, 64):
        try:
            while True:
                HOARD.append(bytearray(size))
        except MemoryError:
            continue
    raise MemoryError("nothing is left")


@body("hoards memory")
def hoards(_: TaskContext) -> None:
    hoard()


@body("takes all memory")
def takes_all_memory(_: TaskContext) -> str:
    """Written to, so that it is really taken; a machine without the limit is spared."""
    for _turn in range(1024):
        HOARD.append(b"x" * MIB)
    return "1 GiB"


@body("soft cpu limit")
def soft_cpu_limit(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 5))
    while True:
        pass


@body("file size limit")
def file_size_limit(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    Path("too-large").write_bytes(b"x" * 8192)


@body("no descriptors left")
def no_descriptors_left(_: TaskContext) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    while True:
        os.dup(0)


@body("recursion in C")
def recursion_in_c(_: TaskContext) -> None:
    sys.setrecursionlimit(10**8)
    callback = ctypes.CFUNCTYPE(None)

    def again() -> None:
        callback(again)()

    again()
