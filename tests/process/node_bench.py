"""Whole nodes for tests: a `Controller` in the test's own process, or a real `chong-supervisor`."""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import structlog
from setproctitle import getproctitle, setproctitle
from waiting import LIMIT, is_alive, pauses, wait_until

from chong.store.buckets import BucketPolicy
from chong.store.errors import StoreUnavailable
from chong.store.ids import new_id
from chong.store.model import Note, TaskSnapshot, Transition
from chong.store.postgres import PostgresTaskStore
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status
from chong.supervisor.client import Client
from chong.supervisor.control_client import ask_node
from chong.supervisor.controller import Controller
from chong.supervisor.paths import Paths

LEASE = 3.0
POLL = 0.05
TASK_FOLDERS = tuple(str(Path(__file__).parents[1] / name) for name in ("process", "hostile", "worker"))
"""Where the task modules of tests lie."""
PASS_ENV = ("NODE_*", "COV_*", "COVERAGE_*")
S = Status


def title_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def whole_lines(path: Path) -> list[str]:
    """Of a file that may be written at this moment: the last line may be there in part."""
    try:
        return path.read_text(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return []


def key_of(low: int, high: int) -> str:
    """A key whose bucket, of 64, lies in this range."""
    policy = BucketPolicy(64)
    return next(key for key in map(str, range(10_000)) if low <= policy.bucket_of(key) <= high)


def seconds(earlier: Any, later: Any) -> float:
    return (later - earlier).total_seconds()


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Bench:
    """A directory that a node lives in, and what can be seen of it from outside."""

    is_supervisor = False
    submit: Callable[..., str]
    """Takes a task's name, its key and its parameters; the kinds of benches do it in ways of their own."""

    def __init__(self) -> None:
        # Short: a socket's path has at most 107 bytes. Every process of the node has it as its working directory.
        self.root = Path(tempfile.mkdtemp(prefix="chong-"))
        self.state = self.root / "state"
        self.paths = Paths(self.state, self.state / "run")
        self.journal_path = self.root / "journal"
        self.database: Path | None = None
        self.address: str | None = None
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CHONG_")},
            "PYTHONPATH": os.pathsep.join([*TASK_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "NODE_JOURNAL": str(self.journal_path),
            "NODE_BENCH": str(self.root),
            "CHONG_CONFIG": "/dev/null",
        }

    @cached_property
    def store(self) -> SqliteTaskStore | PostgresTaskStore:
        if self.address is not None:
            return PostgresTaskStore(self.address)
        self.state.mkdir(mode=0o700, exist_ok=True)
        return SqliteTaskStore(self.database or self.paths.default_store, checkpoints=self.is_supervisor)

    def elsewhere(self) -> Path:
        """A place for the store outside the state directory, to be named to the node as well."""
        self.database = self.root / "elsewhere.db"
        return self.database

    def share(self, address: str) -> None:
        """Use a store on a server, which other nodes use as well."""
        self.address = self.environment["CHONG_DB"] = address

    def wait_for_store(self) -> None:
        """Until the test's own connection works again."""

        def answers() -> bool:
            try:
                return self.store.deployment() is not None
            except StoreUnavailable:
                return False

        wait_until(answers, "the store")

    # --- tasks -------------------------------------------------------------------------------------------------

    def begun(self, name: str, /, **params: Any) -> str:
        """Submit it, and wait until its own code runs and is known to run."""
        task_id = self.submit(name, **params)
        self.wait_for_word(task_id)
        self.wait_for(task_id, S.RUNNING)
        return task_id

    def task(self, task_id: str) -> TaskSnapshot:
        """As soon as the store has it: a submission is answered before that where the store is slow."""
        found: TaskSnapshot = wait_until(lambda: self.store.get(task_id), f"task {task_id}")
        return found

    def wait_for(self, task_id: str, *statuses: Status, limit: float = LIMIT) -> TaskSnapshot:
        """The task, as soon as it has one of these statuses; fails at once when it can never have."""
        end = time.monotonic() + limit
        between = pauses()
        while True:
            found = self.store.get(task_id)
            if found is not None and found.status in statuses:
                return found
            shown = f"{found.status}, {found.failure}" if found else "unknown"
            assert found is None or not found.status.is_final, f"expected {statuses}, got {shown}"
            assert time.monotonic() < end, f"expected {statuses} within {limit} s, got {shown}"
            next(between)

    def end_of(self, task_id: str, limit: float = LIMIT) -> TaskSnapshot:
        return self.wait_for(task_id, *(status for status in S if status.is_final), limit=limit)

    def ends_of(self, ids: Iterable[str], limit: float = LIMIT) -> list[TaskSnapshot]:
        end = time.monotonic() + limit
        return [self.end_of(task_id, max(0.1, end - time.monotonic())) for task_id in ids]

    def spooled(self, table: str) -> dict[str, dict[str, Any]]:
        """The rows of the node's spool by id, in their order, as they are on the disk."""
        with contextlib.closing(sqlite3.connect(f"file:{self.paths.spool}?mode=ro", uri=True)) as spool:
            spool.row_factory = sqlite3.Row
            return {row["id"]: dict(row) for row in spool.execute(f"SELECT * FROM {table} ORDER BY rowid")}

    def trail(self, task_id: str) -> list[Status]:
        return [transition.target for transition in self.store.history(task_id)]

    def moment(self, task_id: str, status: Status) -> Transition:
        """The last transition to this status."""
        return [move for move in self.store.history(task_id) if move.target is status][-1]

    def notes(self, task_id: str) -> dict[str, Note]:
        return {note.kind: note for note in self.store.notes(task_id)}

    def wait_for_note(self, task_id: str, kind: str) -> Note:
        return wait_until(lambda: self.notes(task_id).get(kind), f"note {kind}")

    def journal(self, word: str | None = None) -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in whole_lines(self.journal_path)]
        return [entry for entry in entries if word in (None, entry["word"])]

    def wait_for_word(self, task_id: str, word: str = "begin") -> dict[str, Any]:
        """The task's own entry in the journal."""
        found: list[dict[str, Any]] = wait_until(
            lambda: [entry for entry in self.journal(word) if entry["id"] == task_id], f"{word} of {task_id}"
        )
        return found[-1]

    def most_at_once(self, among: Iterable[str] | None = None) -> int:
        """How many were between their begin and their end at one moment, by their own account.

        `among`: only tasks with one of these keys or ids.
        """
        wanted = None if among is None else set(among)
        events = [
            (entry["at"], {"begin": 1, "end": -1}[entry["word"]])
            for entry in self.journal()
            if wanted is None or wanted & {entry["key"], entry["id"]}
        ]
        running = most = 0
        for _, step in sorted(events):
            running += step
            most = max(most, running)
        return most

    # --- processes ---------------------------------------------------------------------------------------------

    def processes(self) -> dict[int, str]:
        """All living processes of this node, by pid, with their titles."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and self._is_ours(entry):
                found[int(entry.name)] = title_of(int(entry.name))
        return {pid: title for pid, title in found.items() if is_alive(pid)}

    def forkservers(self) -> list[int]:
        """Without the children in which they try modules out."""
        found = {pid for pid, title in self.processes().items() if title.startswith("chong: forkserver")}
        return sorted(found.difference(*map(children, found)))

    def forkserver(self) -> int:
        """The one that is there, or is about to be."""
        return int(wait_until(self.forkservers, "a forkserver")[-1])

    def zombies_of(self, *parents: int) -> list[int]:
        """Dead children that nobody has reaped."""
        return [pid for parent in parents for pid in children(parent) if not is_alive(pid)]

    def workers(self) -> list[int]:
        return [pid for pid, title in self.processes().items() if title.startswith("chong: worker")]

    def worker_of(self, task_id: str) -> int:
        def look() -> int | None:
            ours = (pid for pid, title in self.processes().items() if title.startswith("chong: worker"))
            return next((pid for pid in ours if title_of(pid).endswith(task_id[-8:])), None)

        return int(wait_until(look, f"worker of {task_id}"))

    def sockets(self) -> list[str]:
        return sorted(path.name for path in self.paths.runtime.glob("*.sock"))

    def _is_ours(self, entry: Path) -> bool:
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink().is_relative_to(self.root):
                return True
            return str(self.root).encode() in (entry / "environ").read_bytes()
        return False

    # --- the end -----------------------------------------------------------------------------------------------

    def kill_rest(self) -> dict[int, str]:
        """What is still alive, killed."""
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def check_gone(self) -> None:
        """Nothing of the node may be left; a process may take a moment to be gone."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.processes(), "end of all processes", 5)
        left = self.kill_rest()
        assert left == {}
        assert self.sockets() == []

    def remove(self) -> None:
        if "store" in self.__dict__:
            self.store.close()
        shutil.rmtree(self.root, ignore_errors=True)


class InProcess(Bench):
    """A `Controller` in this process."""

    controller: Controller
    is_supervisor = True

    def __init__(self) -> None:
        super().__init__()
        self._before = (Path.cwd(), dict(os.environ), getproctitle(), descriptors(), children())
        self._controllers: list[Controller] = []
        os.chdir(self.root)
        os.environ.clear()
        os.environ.update(self.environment)
        silence_logs()

    def start(self, store: Any = None, **options: Any) -> "InProcess":
        settings = {
            "node": "node-a",
            "lease_seconds": LEASE,
            "poll_seconds": POLL,
            "drain_seconds": 0.0,
            "modules": ("node_tasks",),
            "pass_env": PASS_ENV,
            "breaker_crashes": None,  # tests crash the same few tasks on purpose
            "state_dir": self.state,
            **options,
        }
        self.controller = Controller(store=store or self.store, **settings)
        self._controllers.append(self.controller)
        return self

    def submit(self, name: str, key: str | None = None, /, *, unique_key: str | None = None, **params: Any) -> str:
        assert self.controller.fault is None, "the main loop has ended"
        return self.controller.submit(name, key=key, params=params, unique_key=unique_key).id

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Over the control socket."""
        return ask_node(self.paths.control, request)

    def ask(self, op: str, *names: str, by: str, reason: str | None = None) -> list[dict[str, Any]]:
        """`hold` or `unhold` names; it waits until they are known."""
        wait_until(lambda: self.controller._term.node.intake.catalogue, "the definitions")
        facts: list[dict[str, Any]] = self.request({"op": op, "names": names, "by": by, "reason": reason})["names"]
        return facts

    def submit_all(self, name: str, count: int, **params: Any) -> list[str]:
        return [self.submit(name, **params) for _ in range(count)]

    def run(self, name: str, key: str | None = None, /, **params: Any) -> TaskSnapshot:
        """Submit it, and wait for its end."""
        return self.end_of(self.submit(name, key, **params))

    def close(self) -> None:
        for controller in self._controllers:
            controller.close()

    def finish(self) -> None:
        """Close, and fail when anything survives: process, child, socket or descriptor."""
        directory, environment, title, files, kids = self._before
        try:
            self.close()
            assert [c.fault for c in self._controllers if c.fault is not None] == []
            self.check_gone()
            self.store.close()
            new = children() - kids
            assert new == set()
            more = gained(files, descriptors())
            assert more == {}
        finally:
            self.kill_rest()
            self.remove()
            reap(children() - kids)
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            setproctitle(title)
            structlog.reset_defaults()
            ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


class Supervised(Bench):
    """A real `chong-supervisor`, and `chong` beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.log_path = self.root / "supervisor.log"
        self._begins = 0

    @property
    def supervisor(self) -> subprocess.Popen[bytes]:
        return self.supervisors[-1]

    def start(
        self,
        *options: str,
        lease: float = LEASE,
        wait: bool = True,
        output: int | None = None,
        files: int | None = None,
        within: tuple[str, ...] = (),
    ) -> "Supervised":
        """Start a term; with `wait` until it takes work. `output`: where its log goes, if not to `log`.

        files: how many descriptors it may have open. within: a command that execs what follows it.
        """
        words = ["--state-dir", self.state, "--node", "node-a", "--tasks", "node_tasks", "--lease-seconds", lease]
        words += [
            "--poll-seconds",
            POLL,
            "--drain",
            0,
            "--log-format",
            "json",
            "--pass-env",
            ",".join(PASS_ENV),
            "--breaker-crashes",
            "never",
            *options,
        ]
        with self.log_path.open("ab") as log:
            self._begins = log.tell()
            process = subprocess.Popen(
                [*within, sys.executable, "-m", "chong.supervisor.main", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=log if output is None else output,
                cwd=self.root,
                env=self.environment,
            )
        self.supervisors.append(process)
        if files is not None:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))
        if wait:
            self.wait_until_serving()
        return self

    def wait_until_serving(self) -> None:
        """Until the last term takes work."""
        wait_until(self._is_serving, "a supervisor that takes work")

    def wait_until_said(self, step: str) -> None:
        """Until the last term has logged this event; `begun`: its process exists, and has said nothing yet."""
        if step != "begun":
            wait_until(lambda: f'"{step}"'.encode() in self.log_path.read_bytes()[self._begins :], step)

    def _is_serving(self) -> bool:
        assert self.supervisor.poll() is None, self.log()
        said = self.log_path.read_bytes()[self._begins :]
        return b'"accepting"' in said and b'"generation_ready"' in said

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        found = whole_lines(self.log_path)
        return [json.loads(line) for line in found if line.startswith("{") and f'"{name}"' in line]

    def kill(self) -> None:
        """SIGKILL to the supervisor."""
        self.supervisor.kill()
        self.supervisor.wait()

    def terminate(self, limit: float = LIMIT) -> int:
        """SIGTERM, and its exit code."""
        self.supervisor.terminate()
        return self.supervisor.wait(limit)

    def cli(self, *words: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "chong.cli", *words],
            env={**self.environment, "CHONG_STATE_DIR": str(self.state)},
            cwd=self.root,
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def client(self) -> Client:
        """An operator who reaches the store."""
        return Client(self.store, issued_by="operator")

    def refuse(self, *words: str) -> Answer:
        """`chong-supervisor WORDS`, which is expected to end by itself."""
        done = subprocess.run(
            [sys.executable, "-m", "chong.supervisor.main", *words],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def submit(self, name: str, /, key: str | None = None, **params: Any) -> str:
        """Over the control socket, as `chong submit` does, without a process of its own."""
        from chong.supervisor.control_client import submit_over  # noqa: PLC0415
        from chong.supervisor.submission import Submission  # noqa: PLC0415

        submission = Submission(name=name, key=key, params=params, id=new_id())
        return str(submit_over(self.paths.control, submission)["id"])

    def finish(self) -> None:
        """SIGTERM to the last term, and fail when anything survives."""
        try:
            if self.supervisors and self.supervisor.poll() is None:
                assert self.terminate() == 0, self.log()
                self.check_gone()
            wait_until(lambda: not self.processes(), "end of all processes", 6 * LEASE)
        finally:
            for process in self.supervisors:
                process.kill()
                process.wait()
            self.kill_rest()
            self.remove()


def silence_logs() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def descriptors() -> dict[str, int]:
    """How many this process has open of each kind."""
    found: dict[str, int] = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            kind = str(link.readlink()).split(":")[0]
            found[kind] = found.get(kind, 0) + 1
    return found


def gained(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What there is more of than before."""
    return {kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)}


def children(parent: int | None = None) -> set[int]:
    """Of all threads of a process, by default of this one."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{parent or 'self'}/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
    return found


def reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


Enter = Callable[..., Supervised]
"""Starts one more node, with these options."""
