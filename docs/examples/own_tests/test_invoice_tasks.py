"""How the tasks behave: first each by itself in this process, then in a real node."""

from collections.abc import Callable
from pathlib import Path

import pytest
from invoice_tasks import fetch, send

from chong.worker.client import NoResult
from chong.worker.testing import RunningNode, run_task

NUMBERS = [7, 8, 9]


def sent(outbox: Path) -> list[str]:
    return sorted(file.name for file in outbox.iterdir())


def test_all_invoices_are_sent(tmp_path: Path) -> None:
    """Three sleeps of a second take no time here."""
    run = run_task(send, key="acme", params={"outbox": str(tmp_path), "numbers": NUMBERS})
    assert (run.status, run.result) == ("succeeded", {"sent": 3})
    assert [checkpoint.done for checkpoint in run.checkpoints] == [1, 2, 3]
    assert (run.sleeps, run.log[0]["invoices"]) == ([1, 1, 1], 3)
    assert (tmp_path / "8.txt").read_text() == "invoice 8 of acme"


def test_a_stop_leaves_no_draft(tmp_path: Path) -> None:
    """It comes while the task sleeps, with the second draft on the disk."""
    run = run_task(send, params={"outbox": str(tmp_path), "numbers": NUMBERS}, stop_at=3)
    assert (run.status, run.cleaned_up, sent(tmp_path)) == ("stopped", True, ["7.txt"])


def test_a_further_attempt_sends_the_rest(tmp_path: Path) -> None:
    """It is given what the first one had kept, and sends nothing twice."""
    params = {"outbox": str(tmp_path), "numbers": NUMBERS}
    first = run_task(send, params=params, stop_at=lambda moment: moment.state == {"sent": 2})
    (tmp_path / "7.txt").unlink()
    again = run_task(send, params=params, attempt=2, last_checkpoint=first.last_checkpoint)
    assert (again.status, sent(tmp_path)) == ("succeeded", ["8.txt", "9.txt"])


def test_nothing_is_sent_in_a_pause(tmp_path: Path) -> None:
    """What is true while it is paused is looked at there."""
    seen: list[list[str]] = []
    params = {"outbox": str(tmp_path), "numbers": NUMBERS}
    run = run_task(send, params=params, pause_at=2, while_paused=lambda: seen.append(sent(tmp_path)))
    assert (run.status, run.pauses, seen) == ("succeeded", 1, [["7.txt"]])


def test_an_async_task_is_cancelled_by_a_stop() -> None:
    """As in a worker: at the next `await`."""
    assert run_task(fetch, params={"numbers": NUMBERS}).result == ["invoice 7", "invoice 8", "invoice 9"]
    run = run_task(fetch, params={"numbers": NUMBERS}, stop_at=1)
    assert (run.status, len(run.checkpoints)) == ("stopped", 1)


def test_a_real_node_runs_them(chong_node: Callable[..., RunningNode], tmp_path: Path) -> None:
    """With its supervisor, its forkserver and its workers; all of it is gone after the test."""
    client = chong_node("invoice_tasks").client
    task_id = client.submit("invoices.send", key="acme", params={"outbox": str(tmp_path), "numbers": [7]})
    assert client.result(task_id, timeout=60) == {"sent": 1}
    task_id = client.submit("invoices.send", params={"outbox": str(tmp_path), "numbers": list(range(1000))})
    client.stop(task_id, reason="enough")
    with pytest.raises(NoResult, match="enough"):  # stopped, or cancelled where it had not begun
        client.result(task_id, timeout=60)
