import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worker_bench import Connection, Node, wait_until


@pytest.fixture
def node() -> Iterator[Node]:
    """A node without a forkserver; at the end nothing of it may be left: process, child, descriptor or socket."""
    # A node of another module's tests may live in this process, which is then a subreaper: what a killed forkserver
    # leaves would come here instead of to the system.
    was_subreaper = _set_subreaper(0)
    descriptors = _descriptors()
    children = _children()
    root = Path(tempfile.mkdtemp(prefix="chong-"))  # short: a socket's path has at most 107 bytes
    node = Node(root)
    try:
        yield node
        left = node.close()
        assert left == {}
        assert _children() == children
        assert _descriptors() == descriptors
    finally:
        node.close()
        shutil.rmtree(root, ignore_errors=True)
        _set_subreaper(was_subreaper)


@pytest.fixture
def connection(node: Node) -> Connection:
    """The supervisor's side of a forkserver that imported the sample tasks."""
    return node.start().attach()


@pytest.fixture
def subreaper(node: Node) -> Iterator[None]:
    """Workers of a killed forkserver become this process's children."""
    libc = ctypes.CDLL(None)
    before = _children()
    libc.prctl(36, 1, 0, 0, 0)
    yield
    node.close()
    libc.prctl(36, 0, 0, 0, 0)
    wait_until(lambda: _reaped(_children() - before), "the workers' ends")


def _set_subreaper(value: int) -> int:
    """The value before."""
    before = ctypes.c_int()
    libc = ctypes.CDLL(None)
    libc.prctl(37, ctypes.byref(before), 0, 0, 0)
    libc.prctl(36, value, 0, 0, 0)
    return before.value


def _reaped(pids: set[int]) -> bool:
    return all(os.waitpid(pid, os.WNOHANG)[0] for pid in pids)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
