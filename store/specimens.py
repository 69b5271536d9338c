"""Tasks, clocks and stores in known states, for `chong.store.conformance` and for tests of one's own."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chong.store.contract import TaskStore
from chong.store.model import Action, Command, LeaseGrant, NodeRecord, Save, TaskSnapshot, TermRecord, Transition
from chong.store.states import Status

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TTL = timedelta(seconds=30)
NODE = "node-a"
TERM = "node-a.1"
LATER_TERM = "node-a.2"
FOREIGN_TERM = "node-b.1"


class SetClock:
    """A store's clock that moves only when told to."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Negative: the clock jumps back."""
        self.now += timedelta(seconds=seconds)


def task_id(number: int) -> str:
    """Ids that sort by their number and differ at both ends."""
    return f"{number:08x}-0000-7000-8000-00000000{number:04x}"


def queued(number: int = 1, **facts: Any) -> TaskSnapshot:
    """A new task, not stored."""
    plain: dict[str, Any] = {"id": task_id(number), "name": "billing.sync", "node": NODE, "created_at": START}
    state = {"status": Status.QUEUED, "version": 1, "status_changed_at": START, "lease_owner": TERM}
    return TaskSnapshot(**(plain | state | facts))


def moved(task: TaskSnapshot, status: Status, **facts: Any) -> TaskSnapshot:
    """The task one version later, not stored."""
    changes: dict[str, Any] = {"status": status, "version": task.version + 1, "status_changed_at": START} | facts
    return replace(task, **changes)


def step(old: TaskSnapshot | None, new: TaskSnapshot, event_id: str | None = None) -> Transition:
    return Transition(
        task_id=new.id,
        version=new.version,
        source=None if old is None else old.status,
        target=new.status,
        at=new.status_changed_at,
        actor="tester",
        event_id=event_id or f"{new.id}:{new.version}",
    )


def save_of(old: TaskSnapshot | None, new: TaskSnapshot, event_id: str | None = None, **more: Any) -> Save:
    expected = 0 if old is None else old.version
    return Save(snapshot=new, transitions=(step(old, new, event_id),), expect_version=expected, **more)


def put(
    store: TaskStore, old: TaskSnapshot | None, new: TaskSnapshot, event_id: str | None = None, **more: Any
) -> TaskSnapshot:
    """Save `new` on top of `old`; returns it."""
    expected = 0 if old is None else old.version
    store.save(new, [step(old, new, event_id)], expect_version=expected, **more)
    return new


def stored_queued(store: TaskStore, number: int = 1, **facts: Any) -> TaskSnapshot:
    return put(store, None, queued(number, **facts))


def start_of(task: TaskSnapshot) -> TaskSnapshot:
    return moved(task, Status.STARTING, attempt=task.attempt + 1)


def stored_run(store: TaskStore, number: int = 1, **facts: Any) -> TaskSnapshot:
    """A task whose first attempt is `starting`, with a lease of its `lease_owner` for TTL."""
    task = stored_queued(store, number, **facts)
    return put(store, task, start_of(task), lease=LeaseGrant(task.lease_owner or TERM, TTL))


def stored_end(store: TaskStore, number: int = 1, ended_at: datetime = START, **facts: Any) -> TaskSnapshot:
    run = stored_run(store, number, **facts)
    return put(store, run, moved(run, Status.SUCCEEDED, ended_at=ended_at))


def read(store: TaskStore, task: TaskSnapshot) -> TaskSnapshot:
    """The task as it is stored; it has to be."""
    found = store.get(task.id)
    assert found is not None
    return found


def request(number: int, task: TaskSnapshot, **facts: Any) -> Command:
    """A stop request for a task, not submitted; later numbers are issued later."""
    issued_at = START + timedelta(seconds=number)
    plain: dict[str, Any] = {"id": f"command-{number}", "task_id": task.id, "action": Action.STOP, "issued_by": "ann"}
    return Command(**(plain | {"issued_at": issued_at} | facts))


def term_record(term: str = TERM, node: str = NODE, started_at: datetime = START) -> TermRecord:
    return TermRecord(term=term, node=node, node_id=f"{node}-id", boot_id="boot", lock_inode=7, started_at=started_at)


def node_record(term: str = TERM, node: str = NODE, **facts: Any) -> NodeRecord:
    plain: dict[str, Any] = {
        "node": node,
        "node_id": f"{node}-id",
        "term": term,
        "host": "host",
        "boot_id": "boot",
        "pid": 1,
    }
    return NodeRecord(**(plain | {"version": "0.1", "ttl": TTL, "started_at": START} | facts))
