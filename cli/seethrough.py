"""Waiting for the end of a task that was just accepted."""

from chong.cli.ending import one_line
from chong.cli.invocation import Invocation
from chong.cli.obstacle import Obstacle
from chong.cli.reach import reach
from chong.cli.screen import print_json, remark
from chong.cli.wait import wait_until
from chong.store.contract import TaskStore
from chong.store.errors import StoreUnavailable
from chong.store.model import TaskSnapshot
from chong.store.states import Status
from chong.supervisor.exits import Exit


def see_through(call: Invocation, task_id: str, *, as_json: bool) -> Exit:
    """Print its id, and how it ended; DONE only when it succeeded."""
    if not as_json:
        print(task_id, flush=True)
    try:
        with reach(call) as reached:
            obstacle = Obstacle(reached.store)
            task = wait_until(lambda: _ended(reached.store, task_id, obstacle))
    except StoreUnavailable:
        remark(f"chong: task {task_id} was accepted; how it ends the store knows, which is out of reach")
        raise
    assert task is not None, "without a time-out there is no other end"
    if as_json:
        print_json(task)
    elif task.status is not Status.SUCCEEDED:
        remark(f"chong: task {task.id} ended as {one_line(task)}")
    return Exit.DONE if task.status is Status.SUCCEEDED else Exit.REFUSED


def _ended(store: TaskStore, task_id: str, obstacle: Obstacle) -> TaskSnapshot | None:
    """None also while the store has not got it yet."""
    task = store.get(task_id)
    if task is None or task.status.is_final:
        return task
    obstacle.look(task)
    return None
