"""A supervisor for tests: starts a real forkserver and speaks the raw protocol with it and with workers."""

import array
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # it is run by itself, too

from waiting import LIMIT, is_alive, wait_until  # noqa: E402


class Run:
    """One run as a supervisor sees it: S, pidfd, and the frames popped so far."""

    def __init__(self, run: str, pid: int, channel: int, pidfd: int, run_dir: Path, epoch: int = 1) -> None:
        self.run, self.pid, self.pidfd, self.run_dir = run, pid, pidfd, run_dir
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=channel)
        self.frames: list[dict[str, Any]] = []
        self.number = [epoch, 0]

    def down(self, kind: str, *, wake: bool = True, n: list[int] | None = None, **body: Any) -> list[int]:
        if n is None:
            self.number[1] += 1
            n = list(self.number)
        self.socket.send(json.dumps({"kind": kind, "n": n, **body}).encode())
        if wake and kind != "go":
            signal.pidfd_send_signal(self.pidfd, signal.SIGURG)
        return n

    def go(self, name: str, params: dict[str, Any] | None = None, **more: Any) -> None:
        task = {"id": "0190ab", "name": name, "key": "acme", "bucket": 3, "attempt": 1, "deadline": None}
        self.down("go", task=task, params=params or {}, run_dir=str(self.run_dir), last_checkpoint=None, **more)

    def next(self, limit: float = LIMIT) -> dict[str, Any] | None:
        """The next frame, popped; None at the end."""
        self.socket.settimeout(limit)
        try:
            data = self.socket.recv(1 << 17)
        except ConnectionResetError:
            return self.next(limit)
        if not data:
            return None
        frame = json.loads(data)
        self.frames.append(frame)
        return frame

    def wait_for(self, kind: str) -> dict[str, Any]:
        while (frame := self.next()) is not None:
            if frame["kind"] == kind:
                return frame
        raise AssertionError(f"{kind}: not among {self.kinds()}")

    def finish(self) -> list[str]:
        """All frames to the end; their kinds."""
        while self.next() is not None:
            pass
        return self.kinds()

    def kinds(self) -> list[str]:
        return [frame["kind"] for frame in self.frames]

    def last(self, kind: str) -> dict[str, Any]:
        return next(frame for frame in reversed(self.frames) if frame["kind"] == kind)

    def close(self) -> None:
        self.socket.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class Connection:
    """The control connection, after hello."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        self.socket.connect(str(node.path))
        self.runs: dict[str, Run] = {}
        self.reports: list[dict[str, Any]] = []
        self.leash = -1
        self.hello: dict[str, Any] = {}

    def greet(self) -> dict[str, Any]:
        self.hello, (self.leash,) = self._receive()
        return self.hello

    def attach(self, term: str | None = "term-1") -> list[dict[str, Any]]:
        self.order("attach", term=term)
        listed = []
        while (report := self.next())["op"] != "attached":
            if report["op"] == "worker":
                listed.append(report)
        return listed

    def order(self, op: str, **body: Any) -> None:
        self.socket.send(json.dumps({"op": op, **body}).encode())

    def spawn(self, run: str, memo: Any = None, title: str = "chong: worker test", task: str = "") -> Run:
        self.order("spawn", run=run, task=task, log=str(self._node.log(run)), title=title, memo=memo)
        self.wait_for("spawned", run)
        return self.runs[run]

    def start(self, run: str, name: str, params: dict[str, Any] | None = None, **more: Any) -> Run:
        worker = self.spawn(run, task=name)
        worker.go(name, params, **more)
        return worker

    def release(self, run: str) -> dict[str, Any]:
        """After its end."""
        end = self.wait_for("exited", run)
        self.order("release", run=run)
        return end

    def wait_for(self, op: str, run: str | None = None) -> dict[str, Any]:
        for report in self.reports:
            if report["op"] == op and run in (None, report.get("run")):
                return report
        while True:
            report = self.next()
            if report["op"] == op and run in (None, report.get("run")):
                return report

    def next(self) -> dict[str, Any]:
        report, descriptors = self._receive()
        self.reports.append(report)
        if descriptors:
            channel, pidfd = descriptors
            if (old := self.runs.get(report["run"])) is not None:
                os.close(channel)
                os.close(pidfd)
                assert old.pid == report["pid"]
            else:
                run_dir = self._node.runs / report["run"]
                self.runs[report["run"]] = Run(report["run"], report["pid"], channel, pidfd, run_dir, self._node.epoch)
        return report

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        space = socket.CMSG_SPACE(8 * 4)
        data, beside, _, _ = self.socket.recvmsg(1 << 17, space, socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for _, _, content in beside:
            descriptors.frombytes(content)
        if not data:
            raise ConnectionError("the forkserver closed the connection")
        return json.loads(data), list(descriptors)

    def close(self) -> None:
        self.socket.close()
        for run in self.runs.values():
            run.close()
        self.runs.clear()
        if self.leash >= 0:
            os.close(self.leash)
            self.leash = -1


class Node:
    """A directory, and the forkserver that lives in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "s"
        self.runs = root / "runs"
        self.logs = root / "logs"
        self.catalogue_path = root / "catalogue.json"
        self.epoch = 0
        self.connections: list[Connection] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.logs.mkdir()

    def log(self, run: str) -> Path:
        return self.logs / run

    def start(self, modules: tuple[str, ...] = ("sample_tasks",), **settings: Any) -> "Node":
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with listener:
            listener.bind(str(self.path))
            listener.listen(16)
            argument = {
                "generation": 3,
                "listen_fd": listener.fileno(),
                "lock": str(self.root / "lock"),
                "runs": str(self.runs),
                "catalogue": str(self.catalogue_path),
                "modules": list(modules),
                "hold": 10.0,
                "ladder": 1.0,
                **settings,
            }
            with (self.root / "forkserver.log").open("ab") as output:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "chong.worker.forkserver", json.dumps(argument)],
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "PYTHONPATH": f"{HERE}:{self.root}"},
                )
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def output(self) -> str:
        return (self.root / "forkserver.log").read_text(errors="replace")

    def connect(self) -> Connection:
        connection = Connection(self)
        self.connections.append(connection)
        self.epoch += 1
        connection.greet()
        return connection

    def attach(self, term: str = "term-1") -> Connection:
        connection = self.connect()
        connection.attach(term)
        return connection

    def catalogue(self) -> dict[str, Any]:
        return json.loads(self.catalogue_path.read_text())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def wait_end(self, limit: float = LIMIT) -> int:
        assert self.process is not None
        return self.process.wait(limit)

    def processes(self) -> dict[int, str]:
        """All that live with a word or an open file of this directory."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and self._is_ours(entry):
                with contextlib.suppress(OSError):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return {pid: words for pid, words in found.items() if is_alive(pid)}

    def _is_ours(self, entry: Path) -> bool:
        root = str(self.root)
        try:
            if root in (entry / "cmdline").read_text(errors="replace"):
                return True
            return any(str(link.readlink()).startswith(root) for link in (entry / "fd").iterdir())
        except OSError:
            return False

    def close(self) -> dict[int, str]:
        """Everything ends; what had to be killed although nothing held it is returned."""
        for connection in self.connections:
            connection.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        return self._wait_gone()

    def _wait_gone(self) -> dict[int, str]:
        try:
            wait_until(lambda: not self.processes(), "end of all processes", 3)
        except AssertionError:
            left = self.processes()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return left
        return {}


def is_readable(descriptor: int, seconds: float = 0) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def hold_runs(root: str, *tasks: str) -> None:
    """The life of a supervisor that is killed: it starts runs `r0`, `r1` … and pops none of their frames."""
    node = Node.__new__(Node)
    node.root = Path(root)
    node.path, node.runs, node.logs, node.epoch = node.root / "s", node.root / "runs", node.root / "logs", 0
    node.connections = []
    connection = node.attach("term-dead")
    for number, name in enumerate(tasks):
        connection.spawn(f"r{number}", {"name": name, "number": number}, task=name).go(name)
    print("holding", flush=True)  # noqa: T201
    signal.pause()


def start_holder(node: Node, *tasks: str) -> subprocess.Popen[bytes]:
    """`hold_runs` in a process of its own, waited for."""
    words = [sys.executable, __file__, str(node.root), *tasks]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"holding\n"
    return holder


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


if __name__ == "__main__":
    hold_runs(*sys.argv[1:])
