"""Threads at the end of a run whose module has started some: pools are woken, and the module's own hold nobody up."""

import pytest

MODULE = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
from chong.worker import task

{before}

def work():
    time.sleep(0.2)
    print('worked', flush=True)

@task("pool.idle")
def idle(ctx):
    return [POOL.submit(int).result(), ThreadPoolExecutor().submit(int).result()]

@task("pool.async_idle")
async def async_idle(ctx):
    return [POOL.submit(int).result(), await asyncio.to_thread(int)]

@task("pool.busy")
def busy(ctx):
    POOL.submit(work)
    return [0, 0]

@task("pool.younger")
def younger(ctx):
    threading.Thread(target=work).start()
    return [0, 0]

@task("pool.async_younger")
async def async_younger(ctx):
    threading.Thread(target=work).start()
    return [0, 0]
"""
BEFORE = {
    "a pool": "POOL = ThreadPoolExecutor()\nPOOL.submit(int).result()",
    "a pool and a thread": """
POOL = ThreadPoolExecutor()
POOL.submit(int).result()
threading.Thread(target=threading.Event().wait).start()
""",
    "a pool and a daemon": """
POOL = ThreadPoolExecutor()
threading.Thread(target=threading.Event().wait, daemon=True).start()
""",
    "a pool without threads": "POOL = ThreadPoolExecutor()",
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("name", ["idle", "async_idle", "busy", "younger", "async_younger"])
def test_a_run_ends_by_itself_whatever_threads_its_module_has(node, before, name):
    """Idle pools are woken and the module's threads are left; what the task has begun is waited for."""
    (node.root / "pool.py").write_text(MODULE.format(before=BEFORE[before]))
    connection = node.start(("pool",)).attach()
    is_exec = {entry["name"]: entry["exec"] for entry in node.catalogue()["tasks"]}
    assert is_exec[f"pool.{name}"] == (before != "a pool without threads")
    assert connection.start("r", f"pool.{name}").wait_for("result")["value"] == [0, 0]
    assert connection.release("r")["code"] == 0
    assert node.log("r").read_text() == ("" if name.endswith("idle") else "worked\n")


def test_who_waits_for_the_end_of_the_main_thread_sees_it(node):
    """A usual way for threads to end by themselves; a thread of the module that is a daemon does not change that."""
    text = """
import threading, time
from chong.worker import task
threading.Thread(target=threading.Event().wait, daemon=True).start()

def last():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print('seen', flush=True)

@task("main.end")
def end(ctx):
    threading.Thread(target=last).start()
"""
    (node.root / "main_end.py").write_text(text)
    connection = node.start(("main_end",)).attach()
    assert connection.start("r", "main.end").wait_for("result")["value"] is None
    assert connection.release("r")["code"] == 0
    assert node.log("r").read_text() == "seen\n"
