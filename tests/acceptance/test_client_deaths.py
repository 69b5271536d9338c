"""A client whose node dies in the middle of a call asks the next term, and nothing runs twice."""

import asyncio
import sys
import threading
from pathlib import Path

from node_bench import LIMIT, S, Supervised, wait_until

from chong.store.query import TaskQuery
from chong.worker.client import AsyncClient, Client

KILLED = (sys.executable, str(Path(__file__).with_name("killed_at_answer.py")))


def test_a_submission_whose_answer_was_lost_is_run_once(place: Supervised):
    """The supervisor had accepted and stored it, and was killed before it said so."""
    node = place.start(lease=30, within=KILLED)
    ids: list[str] = []
    client = Client(runtime_dir=node.paths.runtime)
    asking = threading.Thread(target=lambda: ids.append(client.submit("noop", timeout=LIMIT)))
    asking.start()
    node.supervisor.wait(LIMIT)
    (task,) = node.store.query(TaskQuery())
    assert ids == []
    node.start(lease=30)
    asking.join(LIMIT)
    attempt = client.result(task.id)  # a start that was claimed at the kill, and never forked, is counted beside it
    assert (ids, attempt - node.task(task.id).unstarted) == ([task.id], 1)
    assert [entry["id"] for entry in node.journal("begin")] == [task.id]


def test_who_waits_goes_on_waiting_with_the_next_term(place: Supervised):
    """In an event loop as well."""
    node = place.start(lease=30)
    task_id = node.begun("until", path=str(node.root / "open"))
    told: list[str] = []
    client, other = Client(runtime_dir=node.paths.runtime), AsyncClient(runtime_dir=node.paths.runtime)
    waiting = [
        threading.Thread(target=lambda: told.append(client.result(task_id))),
        threading.Thread(target=lambda: told.append(asyncio.run(other.result(task_id)))),
    ]
    descriptors = Path(f"/proc/{node.supervisor.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for each in waiting:
        each.start()
    wait_until(lambda: len(list(descriptors.iterdir())) == before + 2, "two that are connected")
    node.kill()
    node.start(lease=30)
    (node.root / "open").touch()
    for each in waiting:
        each.join(LIMIT)
    assert told == ["released", "released"]
    wait_until(lambda: node.task(task_id).status is S.SUCCEEDED, "its end")
