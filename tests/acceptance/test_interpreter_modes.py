"""chong under an interpreter that makes every warning an error, or leaves asserts and docstrings out."""

import ast
from pathlib import Path

import pytest
from node_bench import S, Supervised, wait_until

import chong.cli
import chong.store
import chong.supervisor
import chong.worker

MODES = {
    "warnings are errors": {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"},
    "optimised": {"PYTHONOPTIMIZE": "2"},
}
TASKS = """
import asyncio
from chong.worker import task

@task("mode.plain")
def plain(ctx, to=1):
    ctx.checkpoint(done=to)
    return to

@task("mode.raises")
def raises(ctx):
    raise ValueError("no")

@task("mode.until")
def until(ctx):
    while True:
        ctx.checkpoint()
        ctx.sleep(0.01)

@task("mode.async")
async def later(ctx):
    await asyncio.sleep(0)
    return 2
"""
THREADS = """
import threading
from chong.worker import task
threading.Thread(target=threading.Event().wait, daemon=True).start()

@task("mode.exec")
def executed(ctx):
    return 3
"""
WORDS = [("ps", "--all"), ("nodes",), ("tasks",), ("buckets",), ("stats",), ("config", "show"), ("completion", "bash")]


@pytest.mark.parametrize("mode", MODES)
def test_a_node_and_its_commands_work_in_every_mode(place: Supervised, mode: str):
    """Tasks that are forked, executed, stopped, failing and async; takeover, reload, and commands without a word.

    The lease is a long one: a slow machine may take its time for the second start.
    """
    place.environment.update(MODES[mode])
    (place.root / "mode_tasks.py").write_text(TASKS)
    (place.root / "thread_tasks.py").write_text(THREADS)
    modules = ("--tasks", "mode_tasks,thread_tasks")
    node = place.start(*modules, lease=30.0)
    outcomes = [node.end_of(node.submit(name)).outcome for name in ("mode.plain", "mode.async", "mode.exec")]
    assert outcomes == [1, 2, 3]
    assert node.end_of(node.submit("mode.raises")).failure.message == "no"
    running = node.submit("mode.until")
    node.wait_for(running, S.RUNNING)
    node.kill()
    place.start(*modules, lease=30.0)
    assert node.cli("stop", running, "--wait").code == 0
    assert (node.end_of(running).status, node.end_of(running).attempt) == (S.STOPPED, 1)
    assert node.cli("reload").code == 0
    answers = {words: node.cli(*words) for words in WORDS}
    assert {words: (answer.code, answer.err) for words, answer in answers.items()} == dict.fromkeys(WORDS, (0, ""))
    shown = node.cli("show", running)
    assert (shown.code, shown.err) == (0, "")
    assert node.events("main_loop_failed") == []
    logs = [node.log(), *(log.read_text() for log in node.paths.logs.glob("*.log"))]
    assert [text for text in logs if "Warning" in text or "Exception ignored" in text] == []
    wait_until(lambda: len(node.events("generation_ended")) > 0, "the end of the first generation")


@pytest.mark.parametrize("mode", MODES)
def test_every_command_explains_itself_in_every_mode(place: Supervised, mode: str):
    """What it does comes from the table of commands, where docstrings are left out."""
    place.environment.update(MODES[mode])
    answer = place.cli("prune", "--help")
    assert (answer.code, answer.err) == (0, "")
    assert "Remove tasks that ended long ago, with all that is kept of them." in answer.out


def test_no_assert_of_the_product_does_anything():
    """Without them the same is done: none calls, binds or waits within its condition but for isinstance."""
    found = []
    for package in (chong.cli, chong.store, chong.supervisor, chong.worker):
        for path in Path(package.__path__[0]).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Assert) and not path.name.startswith("conformance"):
                    found += [f"{path.name}:{node.lineno}" for part in ast.walk(node.test) if _does(part)]
    assert found == []


def _does(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        return not (isinstance(part.func, ast.Name) and part.func.id == "isinstance")
    return isinstance(part, ast.NamedExpr | ast.Await | ast.Yield)
