"""What only a shared store can see, with real supervisors: alerts, the operator's command, and `chong doctor`."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from node_bench import LEASE, Enter, S, Supervised, key_of, wait_until

LOOK = 0.5
OFTEN = ("--alert-seconds", str(LOOK), "--num-buckets", "64")
TAKE_DOWN = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture
def watchful(fleet: Enter) -> Enter:
    """Starts one more node, by its name and its buckets, that looks for what is wrong often."""
    return lambda name, buckets, *options: fleet("--node", name, "--owned-buckets", buckets, *OFTEN, *options)


def alert(node: Supervised, kind: str, subject: str, said: str = "") -> Any:
    """The open alert, as soon as it is there and says so."""

    def look() -> Any:
        alerts = (a for a in node.store.alerts() if (a.kind, a.subject) == (kind, subject))
        return next((a for a in alerts if said in a.detail), None)

    return wait_until(look, f"the alert {kind} {subject}")


def cleared(node: Supervised, alert_id: int) -> Any:
    def look() -> Any:
        return next((a for a in node.store.alerts(cleared=True) if a.id == alert_id and a.cleared_at), None)

    return wait_until(look, f"the end of alert {alert_id}")


def test_buckets_of_two_nodes_are_told_at_the_start_and_raised(watchful: Enter):
    """The second one warns in its log; an operator takes the alert on; it is over when one gives the buckets back."""
    one, two = watchful("one", "0-31"), watchful("two", "30-63")
    (warning,) = two.events("buckets_declared_twice")
    assert (warning["level"], warning["by"], warning["buckets"]) == ("error", "one", "30-31")
    raised = alert(one, "duplicate", "buckets 30-31")
    found = one.cli("doctor", "--json")
    assert found.code == 1
    assert ("duplicate", "buckets 30-31") in {(row["kind"], row["subject"]) for row in found.json}
    assert {row["state"] for row in one.cli("buckets", "--json").json if row["bucket"] in {30, 31}} == {"DUPLICATE"}
    assert one.cli("ack", "duplicate", "buckets", "30-31", "--as", "olga").code == 0
    assert [(row["id"], row["acknowledged_by"]) for row in one.cli("alerts", "--json").json] == [(raised.id, "olga")]
    assert two.terminate() == 0
    two.start("--node", "two", "--owned-buckets", "32-63", *OFTEN)
    assert cleared(one, raised.id).acknowledged_by == "olga"
    wait_until(lambda: one.events("alert_cleared") + two.events("alert_cleared"), "its word in a log")
    answer = one.cli("doctor")
    assert (answer.code, answer.out, answer.err) == (0, "nothing found\n", "")


def test_who_declared_a_bucket_and_is_down_is_told_at_the_start_as_well(watchful: Enter):
    """It comes back some day, and then both run the bucket's work."""
    one = watchful("one", "0-31")
    assert one.terminate() == 0
    two = watchful("two", "30-63")
    (warning,) = two.events("buckets_declared_twice")
    assert (warning["by"], warning["buckets"], warning["is_live"]) == ("one", "30-31", False)


def test_a_killed_nodes_buckets_and_work_are_alerts_until_it_is_back(watchful: Enter):
    """Its buckets are uncovered when its lease is over, its tasks orphans when they have not changed for long."""
    one, two = watchful("one", "0-31", "--orphan-after", "1s"), watchful("two", "32-63")
    left = two.submit("noop", key=key_of(32, 63))
    two.wait_for(left, S.SUCCEEDED)
    running = two.submit("hold", key=key_of(32, 63))
    two.wait_for_word(running)
    two.wait_for(running, S.RUNNING)
    two.kill()
    # An alert of before, when there was no second node yet, may still be open.
    uncovered = alert(one, "uncovered", "buckets 32-63", "of two, which is not alive")
    orphan = alert(one, "orphan", "node two", running)
    rows = {row["bucket"]: row for row in one.cli("buckets", "--json").json}
    assert (rows[40]["state"], rows[40]["owners"], rows[40]["live_owners"]) == ("UNCOVERED", ["two"], [])
    lines = one.cli("doctor", "--orphan-after", "1s").out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["orphan", "uncovered"]
    two.start("--node", "two", "--owned-buckets", "32-63", *OFTEN)
    for raised in (uncovered, orphan):
        cleared(one, raised.id)


def test_two_supervisors_tell_the_command_once(watchful: Enter, tmp_path: Path):
    """Of each appearance and of each clearing, whoever of them sees it first."""
    said = tmp_path / "said"
    command = shlex.join([sys.executable, "-c", TAKE_DOWN, str(said)])
    one, two = (watchful(*node, "--alert-command", command) for node in (("one", "0-31"), ("two", "31-63")))
    raised = alert(one, "duplicate", "buckets 31")

    def told(event: str) -> list[dict[str, Any]]:
        lines = said.read_text().splitlines() if said.exists() else []
        messages = [json.loads(line) for line in lines]
        return [each for each in messages if (each["event"], each["id"]) == (event, raised.id)]

    (message,) = wait_until(lambda: told("raised"), "the call of the command")
    assert (message["kind"], message["subject"]) == ("duplicate", "buckets 31")
    assert message["reported_by"] in {"one", "two"}
    assert two.terminate() == 0
    two.start("--node", "two", "--owned-buckets", "32-63", *OFTEN, "--alert-command", command)
    cleared(one, raised.id)
    wait_until(lambda: told("cleared"), "the call at its end")
    assert (len(told("raised")), len(told("cleared"))) == (1, 1)
    events = [*one.events("alert_raised"), *two.events("alert_raised")]
    assert [event["subject"] for event in events if event["alert"] == raised.id] == ["buckets 31"]


def test_a_command_that_hangs_keeps_nobody_waiting(watchful: Enter):
    """Tasks run, and the end of the node takes no longer."""
    command = shlex.join([sys.executable, "-c", "import time; time.sleep(600)"])
    one = watchful("one", "0-31", "--alert-command", command)
    assert one.cli("hold", "--name", "hold").code == 0
    alert(one, "held", "hold")
    task = one.end_of(one.submit("noop", key=key_of(0, 31)))
    assert task.status is S.SUCCEEDED
    assert one.terminate(limit=20 * LEASE) == 0
    assert one.processes() == {}
