"""The crontab of the cookbook and the tasks that it becomes."""

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from chong.worker.client import Client
from chong.worker.definition import Definition
from chong.worker.testing import RunningNode

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cookbook.md").read_text()
PROGRAMS = {
    "sync-customer": 'echo "$1" >>synced',
    "backup-database": "echo $$ >backup.pid; exec sleep 300",
    "fetch-orders": "exit 3",
    "send-report": "touch sent",
    "mail": 'echo "$@" >>mailed; cat >>mailed',
}


def crontab() -> list[tuple[str, str]]:
    """Time and command of each line of the page."""
    (text,) = re.findall(r"```text\n(MAILTO.*?)```", PAGE, re.DOTALL)
    return [(" ".join(line.split()[:5]), line.split(None, 5)[5]) for line in text.splitlines()[1:]]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "crontab_tasks.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield "crontab_tasks"
    monkeypatch.delitem(sys.modules, "crontab_tasks", raising=False)


@pytest.fixture
def client(module: str, tmp_path: Path) -> Iterator[Client]:
    """Of a node whose tasks find the programs, each of which writes to the directory of the test."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\ncd {tmp_path}\n{line}\n")
        (programs / name).chmod(0o755)
    with RunningNode(module, environ={"PATH": f"{programs}:{os.environ['PATH']}"}) as node:
        yield node.client


def test_each_line_of_the_crontab_is_the_schedule_of_a_task(module: str) -> None:
    tasks = [each for each in vars(importlib.import_module(module)).values() if isinstance(each, Definition)]
    times = {" ".join(task.options.schedule[0].text.split()[:5]) for task in tasks}
    assert times == {time for time, _ in crontab()}


def test_a_program_gets_its_key_and_its_end_is_that_of_the_run(client: Client, tmp_path: Path) -> None:
    """One that does not exit with 0 lets the run fail, the next one does not start, and mail is sent."""
    synced = client.submit("customers.sync", key="globex")
    assert client.result(synced, timeout=60) is None
    assert "globex" in (tmp_path / "synced").read_text().split()
    report = client.submit("orders.report", retries=0)
    assert client.wait(report, timeout=60).status == "failed"
    assert not (tmp_path / "sent").exists()
    wait_until(lambda: (tmp_path / "mailed").exists() and report in (tmp_path / "mailed").read_text(), "the mail")
    assert "ops@example.org" in (tmp_path / "mailed").read_text()


def test_a_stop_ends_the_program_too(client: Client, tmp_path: Path) -> None:
    backup = client.submit("database.backup")
    pid_file = tmp_path / "backup.pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "its start")
    client.stop(backup)
    assert client.wait(backup, timeout=60).status == "stopped"
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()
