"""Process ids that a dead node had, and that belong to strangers now."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge import MODULES
from namespace import Namespace, pid_within
from node_bench import S, Supervised, children, is_alive, wait_until

REUSE = Path(__file__).with_name("reuse.py")


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    try:
        yield made
    finally:
        made.close()


def start(place: Supervised, namespace: Namespace) -> None:
    with namespace.entered():
        place.start(*MODULES, lease=30, wait=False, within=namespace.within(place.root))
    place.wait_until_serving()


@contextlib.contextmanager
def reused(namespace: Namespace, pids: list[int]) -> Iterator[list[int]]:
    """Strangers with these ids, which they have within it; their ids out here."""
    words = [*namespace.within(Path("/")), sys.executable, str(REUSE), *map(str, pids)]
    with namespace.entered():
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env={})
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == b"reused\n", process.stderr.read().decode()
            yield sorted(children(process.pid), key=pid_within)
        finally:
            process.kill()


def test_strangers_with_the_ids_of_a_dead_node_are_left_alone(namespace: Namespace, place: Supervised):
    """Supervisor, forkserver and worker are dead, and three others have exactly their ids: the next term judges by
    locks, channels and logs, never by a number."""
    start(place, namespace)
    task_id = place.begun("hold")
    old = [place.supervisor.pid, place.forkserver(), place.worker_of(task_id)]
    inner = [pid_within(pid) for pid in old]
    os.kill(old[1], signal.SIGKILL)
    place.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in old), "the end of all, reaped")
    with reused(namespace, inner) as strangers:
        assert [pid_within(pid) for pid in strangers] == sorted(inner)
        start(place, namespace)
        assert place.end_of(task_id).status is S.LOST
        assert place.end_of(place.submit("noop")).status is S.SUCCEEDED
        assert place.terminate() == 0
        assert [pid for pid in strangers if not is_alive(pid)] == []
