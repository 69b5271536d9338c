"""A small deployment to look at: a state directory with a store in it, and `chong` run on it."""

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chong.store.ids import new_id
from chong.store.model import (
    Command,
    Completion,
    Failure,
    FailureKind,
    LeaseGrant,
    NodeRecord,
    StopMoments,
    TaskSnapshot,
    TermRecord,
    Transition,
)
from chong.store.postgres import PostgresTaskStore
from chong.store.sqlite import SqliteTaskStore
from chong.store.states import Status
from chong.supervisor.events import event_of_command

S = Status
TO_RUN = (S.QUEUED, S.STARTING, S.RUNNING)
PATHS: dict[Status, tuple[Status, ...]] = {
    S.QUEUED: (S.QUEUED,),
    S.STARTING: (S.QUEUED, S.STARTING),
    S.CANCELLED: (S.QUEUED, S.CANCELLED),
    S.RUNNING: TO_RUN,
    S.PAUSED: (*TO_RUN, S.PAUSING, S.PAUSED),
    S.STOPPED: (*TO_RUN, S.STOPPING, S.STOPPED),
}
TERM = "node-a.1"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class World:
    """`store` is the store's own; `run` calls the command line in a process of its own.

    address: of a PostgreSQL store, which goes by its server's clock.
    """

    def __init__(self, state: Path, address: str | None = None) -> None:
        self.state = state
        self.address = address
        self.path = state / "chong.db"
        self._ago = timedelta()
        self.store = (
            SqliteTaskStore(self.path, clock=lambda: datetime.now(UTC) - self._ago)
            if address is None
            else PostgresTaskStore(address)
        )
        self.last_id = ""
        self.store.record_num_buckets(64)
        self.add_node("node-a", None)

    @contextlib.contextmanager
    def ago(self, seconds: float) -> Iterator[None]:
        """The store's clock is so far behind: a lease or a word that is given here has run out long since."""
        self._ago = timedelta(seconds=seconds)
        yield
        self._ago = timedelta()

    def add_node(self, node: str, buckets: frozenset[int] | None, *, ttl: float = 30) -> None:
        term = f"{node}.1"
        now = datetime.now(UTC)
        record = TermRecord(term=term, node=node, node_id="n", boot_id="b", lock_inode=1, started_at=now)
        said = NodeRecord(
            node=node, node_id="n", term=term, host="host-1", machine_id="m" * 32, boot_id="b", pid=7,
            version="0.1.0", ttl=timedelta(seconds=ttl), started_at=now,
        )  # fmt: skip
        self.store.register_term(record, said)
        self.store.declare_buckets(node, buckets)

    def add(
        self, name: str = "billing.sync", status: Status = S.RUNNING, *, ttl: float = 30, **facts: Any
    ) -> TaskSnapshot:
        """A task that went all the way to `status`."""
        now = datetime.now(UTC)
        named = {"id": self.next_id(), "node": "node-a", **facts}
        task = TaskSnapshot(
            name=name, status=S.QUEUED, version=0,
            created_at=now, status_changed_at=now, lease_owner=TERM, max_attempts=4, **named,
        )  # fmt: skip
        steps = []
        for passed in PATHS.get(status, (*TO_RUN, status)):
            task, step = moved(task, passed)
            steps.append(step)
        lease = LeaseGrant(TERM, timedelta(seconds=ttl)) if status.is_run else None
        self.store.save(task, steps, expect_version=0, lease=lease)
        return task

    def next_id(self) -> str:
        """A later one than before: ids of one millisecond are in no order, and tests are quick."""
        found = new_id()
        while found[:13] == self.last_id[:13]:
            found = new_id()
        self.last_id = found
        return found

    def move(self, task: TaskSnapshot, status: Status, **facts: Any) -> TaskSnapshot:
        """One step further, for a task that runs."""
        after, step = moved(task, status, **facts)
        self.store.save(after, [step], expect_version=task.version)
        return after

    def obey(self, command: Command, task: TaskSnapshot, *statuses: Status) -> TaskSnapshot:
        """As a node does: in one save the command is done, and the task gets there; the command causes the first."""
        return self.obey_all(task, {command: statuses})

    def obey_all(self, task: TaskSnapshot, ways: dict[Command, tuple[Status, ...]]) -> TaskSnapshot:
        """As a node whose store was away: several at once."""
        before, steps = task.version, []
        for command, statuses in ways.items():
            for place, status in enumerate(statuses):
                task, step = moved(task, status)
                steps.append(step if place else replace(step, event_id=event_of_command(command.id)))
        self.store.save(task, steps, expect_version=before, completes=[Completion(each.id) for each in ways])
        return task

    def start(self, task: TaskSnapshot) -> TaskSnapshot:
        """The next attempt of a task that waits, which runs then."""
        after, step = moved(task, S.STARTING)
        self.store.save(after, [step], expect_version=task.version, lease=LeaseGrant(TERM, timedelta(seconds=30)))
        return self.move(after, S.RUNNING)

    def run(self, *args: str, env: dict[str, str] | None = None, binary: bool = False) -> Answer:
        return call(self.state, *args, env=env, binary=binary)


def moved(task: TaskSnapshot, status: Status, **facts: Any) -> tuple[TaskSnapshot, Transition]:
    now = datetime.now(UTC)
    said = {**_facts(status, task, now), **facts}
    after = replace(task, status=status, version=task.version + 1, status_changed_at=now, **said)
    step = Transition(
        task_id=task.id, version=after.version, source=task.status if task.version else None, target=status,
        at=now, actor=TERM, event_id=f"{status}{uuid.uuid4()}",
    )  # fmt: skip
    return after, step


def _facts(status: Status, task: TaskSnapshot, now: datetime) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if status is S.STARTING:
        facts["attempt"] = task.attempt + 1
    if status is S.RUNNING:
        facts["started_at"] = now
    if status is S.STOPPING:
        facts["stop"] = StopMoments(now, "olga@desk", "too slow", delivered_at=now)
    if status is S.STOPPED and task.stop:
        facts["stop"] = replace(task.stop, effective_at=now)
    if status is S.FAILED:
        facts["failure"] = Failure(FailureKind.EXCEPTION, "ValueError", "no such page", "Traceback:\n  boom")
    if status is S.SUCCEEDED:
        facts["outcome"] = {"pages": 3}
    if status.is_final:
        facts["ended_at"] = now
    return facts


def clean_environment(state: Path, extra: dict[str, str] | None = None) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(state),
        "CHONG_STATE_DIR": str(state),
        "CHONG_CONFIG": "/dev/null",
        **(extra or {}),
    }


def call(state: Path, *args: str, env: dict[str, str] | None = None, binary: bool = False) -> Answer:
    """`chong ARGS` as its own process, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "chong.cli", *args],
        env=clean_environment(state, env), capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    code = "latin-1" if binary else "utf-8"
    return Answer(done.returncode, done.stdout.decode(code), done.stderr.decode(code))
