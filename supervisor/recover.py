"""What a new term finds: its first contact with the store, and what becomes of each task that the node had.

Runs in the store thread. Reads, adopts, and sorts; the main loop then acts on what was found. Tasks and trails are read
whole: what is not there has not begun, and would be run a second time if it were only not to be read.
"""

import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from chong.store.buckets import BucketPolicy
from chong.store.contract import TaskStore
from chong.store.errors import ChongError
from chong.store.model import Note, TaskSnapshot, TermRecord, Transition
from chong.store.pages import all_tasks
from chong.store.query import TaskQuery
from chong.store.states import RUNS, WAITING, Status
from chong.supervisor.claim import claim_of
from chong.supervisor.inventory import Inventory
from chong.supervisor.namesake import is_registered, refuse_namesake
from chong.supervisor.remains import Remains, read_remains
from chong.supervisor.replay import replay
from chong.supervisor.rivals import rivals
from chong.supervisor.scene import Scene
from chong.supervisor.settings import agreed_policy
from chong.supervisor.survivors import end_writers
from chong.supervisor.verdict import ProcessEnd


def compared(store: TaskStore, scene: Scene) -> Scene:
    """The scene, once its spool was held against the store: before the term is registered, and only once.

    What a restored or copied state directory holds may have run, ended and been forgotten since.
    """
    if scene.is_behind is not None:
        return scene
    known = next((node for node in store.nodes() if node.node == scene.node.node), None)
    is_ours = known is not None and known.node_id == scene.node.node_id
    return replace(scene, is_behind=is_ours and known is not None and known.term not in scene.spool_terms)


def find(store: TaskStore, scene: Scene, on_known: Callable[[bool], None] = lambda _: None) -> Inventory:
    """First contact: announce the term, adopt what it can take over, sort the rest.

    Raises ConfigurationError when the deployment has another number of buckets, or the name is another living node's.
    on_known: told when the store has registered the term. Whatever is raised behind that, the term is ended in the
    store, if that can be reached, and `on_known` hears of it, too.
    """
    _agree_on_buckets(store, scene)
    terms = {record.term: record for record in store.terms(scene.node.node)}
    refuse_namesake(store, scene.node.node, scene.node.node_id)
    store.register_term(scene.term, scene.node)
    on_known(True)
    try:
        return _find_registered(store, scene, terms)
    except BaseException:
        with suppress(ChongError):  # the first error is the one to tell; a try that follows registers anew
            store.end_term(scene.term.term)
            on_known(False)
        raise


def _find_registered(store: TaskStore, scene: Scene, terms: Mapping[str, TermRecord]) -> Inventory:
    # Once more: of two that start together the one that registered first has lost its row by now, or hears of it later.
    is_registered(store, scene.node.node, scene.term.term)
    # And now no `rebucket` can begin: one that ended since has another number, and saw no live node.
    inventory = Inventory(num_buckets=_agree_on_buckets(store, scene))
    parted = not BucketPolicy(inventory.num_buckets).covers_all(scene.owned_buckets)
    inventory.declared = scene.owned_buckets if parted else None
    store.declare_buckets(scene.node.node, inventory.declared)
    if inventory.declared:
        # Behind our own declaration: of two that start together, one at least sees the other.
        inventory.rivals = rivals(store, scene.node.node, inventory.declared)
    replay(store, scene, inventory)
    # Behind the registration: whoever places a hold now waits for our word that we keep to it.
    inventory.holds = store.holds()
    open_here = TaskQuery(node=scene.node.node, statuses=RUNS | WAITING)
    tasks = {task.id: task for task in all_tasks(store, open_here, whole=True)}
    runs = [task for task in tasks.values() if task.status in RUNS]
    _sort_runs(store, scene, inventory, runs, terms)
    _end_survivors(scene, inventory)
    _sort_waiting(scene, inventory, [task for task in tasks.values() if task.status in WAITING])
    _sort_attached(store, scene, inventory, {task.run for task, _ in inventory.running})
    _sort_accepted(store, scene, inventory, tasks)
    _clear_runs(store, scene, {task.run for task in runs})
    return inventory


def find_dead(store: TaskStore, scene: Scene, doubtful: frozenset[str]) -> Inventory:
    """Once the silent forkservers of the scene are gone: what that proves of the runs that were doubtful for them."""
    inventory = Inventory()
    terms = {record.term: record for record in store.terms(scene.node.node)}
    runs = list(all_tasks(store, TaskQuery(ids=doubtful, node=scene.node.node, statuses=RUNS), whole=True))
    _sort_runs(store, replace(scene, silent=frozenset()), inventory, runs, terms)
    _end_survivors(scene, inventory)
    return inventory


def _end_survivors(scene: Scene, inventory: Inventory) -> None:
    inventory.survivors = end_writers(scene.paths.log_of(task.run) for task in inventory.dead)


def _agree_on_buckets(store: TaskStore, scene: Scene) -> int:
    recorded = store.deployment().num_buckets
    number = agreed_policy(recorded, scene.num_buckets, scene.owned_buckets).num_buckets
    if recorded is None:
        recorded = store.record_num_buckets(number).num_buckets  # another node may have been faster
        agreed_policy(recorded, number, scene.owned_buckets)
    return number


def _sort_runs(
    store: TaskStore,
    scene: Scene,
    inventory: Inventory,
    runs: list[TaskSnapshot],
    terms: Mapping[str, TermRecord],
) -> None:
    by_owner: dict[str, list[TaskSnapshot]] = {}
    others = (task for task in runs if task.run not in scene.attached)
    answered = {task.id: number for task in others if (number := _answered_by(store, scene, task)) is not None}
    for task in runs:
        owner = task.lease_owner or ""
        if task.run in scene.attached or task.id in answered or is_proven_dead(terms.get(owner), scene):
            by_owner.setdefault(owner, []).append(task)
        else:
            inventory.doubtful.append(task)
    for owner, tasks in by_owner.items():
        adopted = store.adopt(owner, scene.term.term, [t.id for t in tasks], scene.ttl, f"adopt.{uuid.uuid4().hex}")
        for task in adopted:
            if task.run in scene.attached:
                inventory.running.append((task, running_seconds(store.history(task.id, whole=True), datetime.now(UTC))))
            elif task.started_at is None and task.id in answered:
                inventory.unforked.append((task, answered[task.id]))
            else:
                inventory.dead.append(task)


def _answered_by(store: TaskStore, scene: Scene, task: TaskSnapshot) -> int | None:
    """The generation of the one forkserver that can have forked the run, if it answers: it holds it, or never did."""
    claim = claim_of(store.history(task.id, whole=True))
    return claim[1] if claim in scene.served else None


def is_proven_dead(holder: TermRecord | None, scene: Scene) -> bool:
    """Whether a holder and all its workers are dead for certain, with no need to wait for its leases.

    We hold the flock that it held, and no forkserver of this node lives unanswered. The same boot of the same
    machine is part of the proof: on a clone, or after a restored state directory, the lock proves nothing.
    """
    if holder is None or scene.silent:
        return False
    ours = scene.term
    return (holder.node_id, holder.boot_id, holder.lock_inode) == (ours.node_id, ours.boot_id, ours.lock_inode)


def _sort_waiting(scene: Scene, inventory: Inventory, waiting: list[TaskSnapshot]) -> None:
    for task in sorted(waiting, key=lambda task: (task.created_at, task.id)):  # as old as they were accepted
        (inventory.waiting if task.id in scene.accepted else inventory.spoolless).append(task)


def _sort_attached(store: TaskStore, scene: Scene, inventory: Inventory, adopted: set[str]) -> None:
    for run in scene.attached - adopted:
        task_id = run.rpartition(".")[0]
        if any(transition.event_id == f"{run}.exit" for transition in store.history(task_id, whole=True)):
            inventory.stored_runs.append(run)
        else:
            inventory.foreign_runs.append((run, store.get(task_id)))


def _sort_accepted(store: TaskStore, scene: Scene, inventory: Inventory, tasks: Mapping[str, TaskSnapshot]) -> None:
    absent = {task_id: submission for task_id, submission in scene.accepted.items() if task_id not in tasks}
    known = {task.id: task for task in all_tasks(store, TaskQuery(ids=frozenset(absent)), whole=True)} if absent else {}
    for task_id, submission in absent.items():
        found = known.get(task_id)
        has_begun = scene.paths.log_of(f"{task_id}.1").exists()
        if found is None and (scene.is_behind or task_id in scene.stored or has_begun):
            inventory.forgotten.append(task_id)  # it would run a second time, or although it was called `lost`
        elif found is None:
            inventory.unsaved.append(submission)
        elif found.status.is_final:
            inventory.ended.append(found)


def _clear_runs(store: TaskStore, scene: Scene, open_runs: set[str]) -> None:
    """Directories of runs that are over: a former term was killed before it could remove them.

    What a forkserver left of a run that was called `lost` meanwhile is evidence that came too late.
    """
    for directory in scene.paths.runs.glob("*.*"):
        run = directory.name
        if run in open_runs or run in scene.attached:
            continue
        remains = read_remains(directory)
        task = store.get(run.rpartition(".")[0]) if remains is not None else None
        if remains is not None and task is not None and task.status is Status.LOST and task.run == run:
            store.append([_late(task, scene.term.term, remains)])
        shutil.rmtree(directory, ignore_errors=True)


def _late(task: TaskSnapshot, actor: str, remains: Remains) -> Note:
    said = "a result" if any(b'"result"' in frame for frame in remains.frames) else "no result"
    how = ProcessEnd(remains.code, remains.signal).describe()
    return Note(
        task_id=task.id,
        kind="late_result",
        at=remains.at,
        actor=actor,
        event_id=f"{task.run}.remains",
        detail=f"attempt {task.attempt} ended with {said} and {how}, told by its forkserver",
    )


def running_seconds(history: list[Transition], now: datetime) -> float:
    """Seconds of user code in the current attempt, rebuilt from the trail: pauses do not count."""
    used = 0.0
    since: datetime | None = None
    for transition in history:
        if transition.target is Status.STARTING:
            used, since = 0.0, None
        runs_on = transition.target in {Status.RUNNING, Status.PAUSING}
        if since is not None and not runs_on:
            used += (transition.at - since).total_seconds()
            since = None
        elif since is None and runs_on:
            since = transition.at
    return used + ((now - since).total_seconds() if since is not None else 0.0)
