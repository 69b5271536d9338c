"""A whole node for tests: a real `chong-supervisor` with directories of its own; at the end nothing of it is left."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from chong.worker.client import Client, NodeUnreachable, UnknownTask
from chong.worker.ids import new_id

START_SECONDS = 60.0
END_SECONDS = 60.0
LOOK = 0.02
NODE = "test"

_STARTER = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)  # SIGTERM when the test's process is gone, however it went
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.executable, [sys.executable, "-m", "chong.supervisor.main", *sys.argv[2:]])
"""


class NodeNotStarted(Exception):  # noqa: N818
    """The supervisor has ended, or is not there in time; the text has the end of its log."""


class RunningNode:
    """A context manager: a node with these task modules, which are found where this process finds modules.

    options: further words for `chong-supervisor`. environ: variables beside those of this process; tasks see the ones
    whose names begin with one of `pass_env`. Its end takes what still runs along.
    """

    def __init__(
        self,
        *modules: str,
        options: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        pass_env: Iterable[str] = (),
    ) -> None:
        self._modules = modules
        self._options = tuple(options)
        self._environ = dict(environ or {})
        self._pass_env = (*pass_env, *self._environ)
        self._supervisor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="chong-node-"))
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def client(self) -> Client:
        return Client(state_dir=self.state_dir, runtime_dir=self.state_dir / "run")

    @property
    def environment(self) -> dict[str, str]:
        """For `chong` and other programs that are to find this node."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("CHONG_")}
        path = os.pathsep.join([*(entry or str(Path.cwd()) for entry in sys.path), *_entries(own)])
        return {
            **own,
            "PYTHONPATH": path,
            "CHONG_CONFIG": os.devnull,
            "CHONG_NODE": NODE,
            "CHONG_STATE_DIR": str(self.state_dir),
            **self._environ,
        }

    def log(self) -> str:
        """What the supervisor has written."""
        return (self.root / "supervisor.log").read_text(errors="replace")

    def start(self) -> None:
        """Start a supervisor, also after `kill`, and wait until it answers."""
        words = ["--tasks", ",".join(self._modules), "--drain", "0", "--poll-seconds", "0.1", "--log-format", "json"]
        words += ["--pass-env", ",".join(self._pass_env)] if self._pass_env else []
        with (self.root / "supervisor.log").open("ab") as log:
            self._supervisor = subprocess.Popen(  # noqa: S603
                [sys.executable, "-c", _STARTER, str(os.getpid()), *words, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
                env=self.environment,
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._supervisor.poll() is not None or time.monotonic() > end:
                raise NodeNotStarted(f"no node with {', '.join(self._modules)}: {self.log()[-2000:]}")
            time.sleep(LOOK)

    def kill(self) -> None:
        """SIGKILL to the supervisor; its workers live on for a while, and the next `start` takes them over."""
        if self._supervisor is not None:
            self._supervisor.kill()
            self._supervisor.wait()

    def close(self) -> None:
        """End the node and whatever it has started, and remove its directories. Idempotent."""
        if self._supervisor is not None:
            self._supervisor.terminate()
            try:
                self._supervisor.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._supervisor = None
        self._end_rest()
        shutil.rmtree(self.root, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            self.client.get(new_id(), timeout=START_SECONDS)
        except UnknownTask:
            return True
        except NodeUnreachable:
            return False
        return True

    def _end_rest(self) -> None:
        """A killed supervisor leaves what it has started; all of it has the node's directory as its own."""
        end = time.monotonic() + END_SECONDS
        while (left := self._processes()) and time.monotonic() < end:
            for pid in left:
                _kill(pid)
            time.sleep(LOOK)

    def _processes(self) -> list[int]:
        mark = f"CHONG_STATE_DIR={self.state_dir}".encode()
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if pid != os.getpid() and self._is_ours(Path(f"/proc/{pid}"), mark)]

    def _is_ours(self, entry: Path, mark: bytes) -> bool:
        try:
            if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return False
            return (entry / "cwd").readlink() == self.root or mark in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


def _entries(environ: Mapping[str, str]) -> list[str]:
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
