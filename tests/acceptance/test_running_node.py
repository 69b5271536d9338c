"""The node that a test of tasks is given leaves nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from node_bench import TASK_FOLDERS, is_alive, wait_until

from chong.worker.client import TaskFailed
from chong.worker.testing import NodeNotStarted, RunningNode


@pytest.fixture
def tasks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in TASK_FOLDERS:
        monkeypatch.syspath_prepend(folder)


def of_node(root: Path) -> list[int]:
    """The living processes whose directory that is."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == root:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_node_of_a_test_leaves_nothing(tasks_are_found: None):
    """Its supervisor was killed and started anew, and a task runs still; no process and no file is there at the end."""
    with RunningNode("node_tasks", environ={"NODE_COLOUR": "blue"}) as node:
        held = node.client.submit("hold")
        wait_until(lambda: node.client.get(held).status == "running", "a running task")
        node.kill()
        node.start()
        assert node.client.get(held).attempt == 1
        with pytest.raises(TaskFailed, match="no way"):
            node.client.result(node.client.submit("end", params={"how": "sys.exit(text)"}))
        ours = of_node(node.root)
        assert len(ours) >= 3
        shown = subprocess.run(
            [sys.executable, "-m", "chong.cli", "ps"], env=node.environment, capture_output=True, text=True, check=True
        )
        assert "hold" in shown.stdout
        node.kill()
    assert [pid for pid in ours if is_alive(pid)] == []
    assert not node.root.exists()


def test_a_node_that_does_not_start_says_why():
    """With the supervisor's own words."""
    with (
        pytest.raises(NodeNotStarted, match="--lease-second"),
        RunningNode("node_tasks", options=["--lease-second", "3"]),
    ):
        pass


def test_a_killed_test_takes_its_node_along(tmp_path: Path):
    """Nobody else would ever end it."""
    code = "import sys, time; from chong.worker.testing import RunningNode\nwith RunningNode('json') as node:\n"
    code += " print(node.root, flush=True); time.sleep(600)"
    testing = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ, cwd=tmp_path
    )
    try:
        assert testing.stdout is not None
        root = Path(testing.stdout.readline().strip())
        assert len(wait_until(lambda: of_node(root), "its processes")) >= 1
    finally:
        testing.send_signal(signal.SIGKILL)
        testing.communicate()
    wait_until(lambda: of_node(root) == [], "the end of its processes")
    subprocess.run(["rm", "-r", root], check=True)
