"""A node to measure: a real supervisor with its own directories, and the control socket's other end."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TextIO

import psutil

from chong.store.contract import TaskStore
from chong.store.ids import new_id
from chong.store.open import open_store

TOOLS = Path(__file__).resolve().parent
SCRIPTS = Path(sys.executable).parent
LOOK = 0.02


class BenchError(Exception):
    """A figure cannot be had; the text says why."""


def wait_until(what: str, condition: Callable[[], Any], limit: float = 60.0, look: float = LOOK) -> None:
    """`look`: seconds between two looks; they cost the node something too."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {limit:.0f} s in vain until {what}")
        time.sleep(look)


class Node:
    """Use it as a context manager; nothing of it is left afterwards.

    address: of the store, which is a file of the node's own without one.
    """

    def __init__(self, *options: str, address: str | None = None) -> None:
        self._address = address
        self._stack = ExitStack()
        self._options = options

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chong-bench-")))
            self.environment = {
                **os.environ,
                "CHONG_STATE_DIR": str(self.state),
                "CHONG_CONFIG": os.devnull,
                "CHONG_DB": self._address or str(self.state / "chong.db"),
                "PYTHONPATH": str(TOOLS),
            }
            self._log = stack.enter_context((self.state / "supervisor.log").open("w"))
            self.supervisor = self._start()
            stack.callback(self._end)
            wait_until("the supervisor listens", self._listens)
            self.store: TaskStore = stack.enter_context(open_store(self.environment["CHONG_DB"]))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [str(SCRIPTS / "chong-supervisor"), "--tasks", "bench_tasks", "--drain", "0", *self._options]
        return subprocess.Popen(command, env=self.environment, stdout=self._log, stderr=subprocess.STDOUT)  # noqa: S603

    def _listens(self) -> bool:
        if self.supervisor.poll() is not None:
            raise BenchError(f"the supervisor ended: {(self.state / 'supervisor.log').read_text()[-300:]}")
        try:
            return self.ask([]) == []
        except OSError:
            return False

    def _end(self) -> None:
        family = [self.supervisor_process, *self.supervisor_process.children(recursive=True)]
        self.supervisor.terminate()
        _, alive = psutil.wait_procs(family, timeout=30)
        for process in alive:
            process.kill()
        self.supervisor.wait()

    @property
    def supervisor_process(self) -> psutil.Process:
        return psutil.Process(self.supervisor.pid)

    def workers(self) -> list[psutil.Process]:
        """The processes below a forkserver."""
        children = self.supervisor_process.children()
        return [worker for child in children for worker in child.children()]

    def ask(self, requests: Sequence[dict[str, Any]], window: int = 32) -> list[dict[str, Any]]:
        """Send requests over one connection, up to `window` of them unanswered; the answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(self.state / "run" / "control.sock"))
            # Two objects: a text file opened for both forgets what it has read ahead whenever it writes.
            answers = connection.makefile("r", encoding="utf-8", newline="\n")
            return list(_pipeline(connection, answers, requests, window))

    def submit(self, name: str, count: int = 1) -> list[str]:
        """The ids of so many accepted tasks."""
        ids = [new_id() for _ in range(count)]
        self.ask([submission(name, id_) for id_ in ids])
        return ids

    def wait_final(self, ids: Iterable[str]) -> None:
        waiting = list(ids)
        wait_until("the tasks ended", lambda: all(self.status(id_).is_final for id_ in waiting))

    def status(self, task_id: str) -> Any:
        found = self.store.get(task_id)
        if found is None:
            raise BenchError(f"the store does not know task {task_id}")
        return found.status


def submission(name: str, task_id: str) -> dict[str, Any]:
    """A request with a key of its own, so that the tasks are spread over the buckets."""
    return {"op": "submit", "id": task_id, "name": name, "key": task_id, "params": {}}


def _pipeline(
    connection: socket.socket, answers: TextIO, requests: Sequence[dict[str, Any]], window: int
) -> Iterable[dict[str, Any]]:
    for sent, request in enumerate(requests):
        connection.sendall((json.dumps(request) + "\n").encode())
        if sent >= window:
            yield _answer(answers)
    for _ in requests[-window:]:
        yield _answer(answers)


def _answer(answers: TextIO) -> dict[str, Any]:
    line = answers.readline()
    answer: dict[str, Any] = json.loads(line) if line else {"ok": False, "error": "the connection was closed"}
    if not answer.get("ok"):
        raise BenchError(f"the node refused: {answer}")
    return answer
