"""What people and nodes ask of a store again and again, each as the calls that it makes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from chong.cli.standing import standings
from chong.store.contract import TaskStore
from chong.store.ids import id_at, new_id
from chong.store.model import Beat, LeaseGrant, Save, TaskSnapshot, Transition
from chong.store.query import TaskQuery
from chong.store.states import FINAL, RUNS, WAITING, Status
from chong.supervisor.reconcile import Judge

NODE, TERM = "node-3", "node-3.1111"
TTL = timedelta(minutes=30)
ROWS = 101
BATCH = 100


@dataclass(frozen=True)
class Subjects:
    """Tasks of the store for operations on single ones: runs of `TERM` with a lease, and one that has ended."""

    runs: tuple[TaskSnapshot, ...]
    ended: TaskSnapshot
    middle: str

    @classmethod
    def of(cls, store: TaskStore) -> "Subjects":
        half_a_year = datetime.now(UTC) - timedelta(days=180)
        middle = id_at(int(half_a_year.timestamp() * 1000), bytes(10))
        runs = store.query(TaskQuery(statuses=frozenset({Status.RUNNING}), node=NODE, limit=1000))
        return cls(tuple(runs), store.query(TaskQuery(before=middle, limit=1))[0], middle)


Operation = Callable[[TaskStore, Subjects], object]


def _ps(**chosen: object) -> Operation:
    """As `chong ps --all` with these filters: group by group."""

    def look(store: TaskStore, _: Subjects) -> None:
        for group in (RUNS, WAITING, FINAL):
            store.query(replace(TaskQuery(statuses=group, limit=ROWS), **chosen))  # type: ignore[arg-type]

    return look


def _ps_open(store: TaskStore, _: Subjects) -> None:
    runs, waiting = (store.query(TaskQuery(statuses=group, limit=ROWS)) for group in (RUNS, WAITING))
    standings(store, [*runs, *waiting])


def _ps_since(store: TaskStore, subjects: Subjects) -> None:
    _ps(since=datetime.now(UTC) - timedelta(days=1))(store, subjects)


def _ps_deep(store: TaskStore, subjects: Subjects) -> None:
    _ps(before=subjects.middle)(store, subjects)


def _show(store: TaskStore, subjects: Subjects) -> None:
    (task,) = store.find(subjects.ended.id[-12:])
    store.commands(task.id)
    standings(store, [task])
    store.history(task.id)


def _history(store: TaskStore, subjects: Subjects) -> None:
    store.get(subjects.ended.id)
    store.history(subjects.ended.id)
    store.notes(subjects.ended.id)


def _claim_commands(store: TaskStore, _: Subjects) -> None:
    store.changed_holds(0)
    store.claim_commands(NODE, TERM, lease=timedelta(0))


def _reconcile(store: TaskStore, _: Subjects) -> None:
    judge = Judge(store, "bench")
    past = judge.candidates(None)
    store.leases()
    store.expire([task.id for task in past[:1]], new_id(), actor="bench")


def _doctor(store: TaskStore, _: Subjects) -> None:
    store.survey(still=timedelta(minutes=10))
    store.alerts()


def _check(store: TaskStore, subjects: Subjects) -> None:
    _doctor(store, subjects)
    store.report_findings([], quiet=timedelta(minutes=3), event_id=new_id())


def _renew(store: TaskStore, subjects: Subjects) -> None:
    store.renew(TERM, [task.id for task in subjects.runs], TTL)


def _touch(store: TaskStore, subjects: Subjects) -> None:
    now = datetime.now(UTC)
    store.touch(TERM, [Beat(task.id, heartbeat_at=now) for task in subjects.runs[:BATCH]])


def _save(store: TaskStore, _: Subjects) -> None:
    """A batch of tasks that are accepted, started and ended, in three calls."""
    now = datetime.now(UTC)
    tasks = [_new_task(now) for _ in range(BATCH)]
    store.save_many([_save_of(None, task) for task in tasks])
    for status in (Status.STARTING, Status.SUCCEEDED):
        after = [_moved(task, status) for task in tasks]
        store.save_many([_save_of(task, new) for task, new in zip(tasks, after, strict=True)])
        tasks = after


def new_runs(store: TaskStore, count: int) -> list[str]:
    """The ids of so many tasks that `TERM` has just started."""
    tasks = [_new_task(datetime.now(UTC)) for _ in range(count)]
    started = [_moved(task, Status.STARTING) for task in tasks]
    for olds, news in (([None] * count, tasks), (tasks, started)):
        refused = [error for error in store.save_many(list(map(_save_of, olds, news))) if error is not None]
        if refused:
            raise refused[0]
    return [task.id for task in tasks]


def _new_task(now: datetime) -> TaskSnapshot:
    return TaskSnapshot(
        id=new_id(),
        name="bench.name-0",
        node=NODE,
        created_at=now,
        status=Status.QUEUED,
        version=1,
        status_changed_at=now,
        lease_owner=TERM,
        bucket=24,
        bucket_key="key-24",
    )


def _moved(task: TaskSnapshot, status: Status) -> TaskSnapshot:
    now = datetime.now(UTC)
    ended = now if status.is_final else None
    return replace(task, status=status, version=task.version + 1, attempt=1, status_changed_at=now, ended_at=ended)


def _save_of(old: TaskSnapshot | None, new: TaskSnapshot) -> Save:
    step = Transition(
        task_id=new.id,
        version=new.version,
        source=None if old is None else old.status,
        target=new.status,
        at=new.status_changed_at,
        actor=TERM,
        event_id=new_id(),
    )
    lease = LeaseGrant(TERM, TTL) if new.status is Status.STARTING else None
    return Save(snapshot=new, transitions=(step,), expect_version=new.version - 1, lease=lease)


def _prune(store: TaskStore, _: Subjects) -> None:
    """What `chong prune` does with one batch, once it has counted."""
    store.prune(store.prunable(timedelta(days=300), limit=BATCH))
    store.prune_traces(timedelta(days=300))


def _prune_nothing(store: TaskStore, _: Subjects) -> None:
    """As each supervisor does every ten minutes."""
    store.prunable(timedelta(days=1000), limit=BATCH)
    store.prune_traces(timedelta(days=1000))


def _count_prunable(store: TaskStore, _: Subjects) -> None:
    store.count_prunable(timedelta(days=300))


def _stats(store: TaskStore, _: Subjects) -> None:
    store.stats()


def _buckets(store: TaskStore, _: Subjects) -> None:
    store.survey(still=timedelta(0))


OPERATIONS: Mapping[str, Operation] = {
    "ps": _ps_open,
    "ps --all": _ps(),
    "ps --all --status failed": _ps(statuses=frozenset({Status.FAILED})),
    "ps --all --status lost --status stopped": _ps(statuses=frozenset({Status.LOST, Status.STOPPED})),
    "ps --all --name": _ps(names=frozenset({"bench.name-7"})),
    "ps --all --name, unknown": _ps(names=frozenset({"bench.nobody"})),
    "ps --all --name, two unknown": _ps(names=frozenset({"bench.nobody", "bench.none"})),
    "ps --all --node": _ps(node=NODE),
    "ps --all --bucket": _ps(buckets=frozenset({7})),
    "ps --all --mine": _ps(buckets=frozenset(range(16))),
    "ps --all --key": _ps(key="key-77"),
    "ps --all --tag": _ps(tags=frozenset({"nightly"})),
    "ps --all --since 1d": _ps_since,
    "ps --all, a page half a year back": _ps_deep,
    "show": _show,
    "history": _history,
    "buckets": _buckets,
    "reconcile": _reconcile,
    "doctor": _doctor,
    "the check of a minute": _check,
    "claim_commands": _claim_commands,
    "renew": _renew,
    "touch": _touch,
    "save, three batches of 100": _save,
    "prune, one batch of 100": _prune,
    "prune, nothing is old enough": _prune_nothing,
    "prune --dry-run": _count_prunable,
    "stats": _stats,
}

COUNTING = frozenset({"prune --dry-run", "stats"})
"""What reads an entry of an index for each task that it counts: nothing polls these."""
