"""Who dies, and what then lives: the hold, the ladder and the leash."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest
from worker_bench import is_alive, kill, start_holder, wait_until


def remains(node, run):
    return json.loads((node.runs / run / "remains.json").read_text())


def _workers(node):
    return [pid for pid, words in node.processes().items() if "chong: worker" in words]


def test_a_killed_supervisors_workers_are_held_and_handed_over(node):
    """The next term gets the living and the dead alike, with their unread frames, and can order them about."""
    node.start()
    holder = start_holder(node, "sample.loop", "sample.quick")
    kill(holder)
    connection = node.connect()
    assert connection.hello["served"] == ["term-dead"]
    listed = {entry["run"]: entry for entry in connection.attach("term-2")}
    assert listed["r0"]["memo"] == {"name": "sample.loop", "number": 0}
    assert listed["r0"]["title"] == "chong: worker test"
    assert not listed["r0"]["exited"]
    assert connection.wait_for("exited", "r1")["code"] == 0 if not listed["r1"]["exited"] else listed["r1"]["code"] == 0
    assert connection.runs["r1"].finish() == ["ready", "started", "result"]
    run = connection.runs["r0"]
    assert run.next()["kind"] == "ready"
    run.wait_for("checkpoint")
    run.number = [2, 0]
    run.down("stop")
    run.wait_for("stopping")
    assert connection.release("r0")["code"] == 0


def test_a_late_spawn_of_a_dead_supervisor_is_honoured_and_listed(node):
    """The order was given; a run that nobody lists would be one that nobody ends."""
    connection = node.start().attach()
    connection.order("spawn", run="late", task="", log=str(node.log("late")), title="t", memo=[1])
    connection.close()
    listed = node.connect().attach("term-2")
    assert [(entry["run"], entry["memo"], entry["exited"]) for entry in listed] == [("late", [1], False)]


def test_when_nobody_comes_the_ladder_ends_all_and_leaves_their_remains(node):
    """What each run said, and how it ended, stays in a file for whichever term comes later."""
    node.start(hold=0.3, ladder=0.6)
    kill(start_holder(node, "sample.sleep", "sample.deaf", "sample.quick", "sample.spin"))
    assert node.wait_end() == 0
    assert node.processes() == {}
    asleep, deaf, quick, spin = (remains(node, f"r{number}") for number in range(4))
    assert (asleep["code"], asleep["signal"]) == (None, signal.SIGTERM)
    assert (deaf["code"], deaf["signal"]) == (None, signal.SIGKILL)
    assert (quick["code"], quick["signal"]) == (0, None)
    assert spin["signal"] == signal.SIGTERM
    assert quick["run"] == "r2"
    assert quick["memo"] == {"name": "sample.quick", "number": 2}
    assert [frame["kind"] for frame in quick["frames"]] == ["ready", "started", "result"]
    assert [frame["n"] for frame in quick["frames"]] == [1, 2, 3]


def test_an_attach_during_the_ladder_stops_it_for_the_living(node):
    """SIGTERM cannot be taken back, but SIGKILL can be spared whom it has not reached."""
    node.start(hold=0.2, ladder=30.0)
    kill(start_holder(node, "sample.deaf", "sample.sleep"))
    wait_until(lambda: len(node.processes()) == 2, "the first step of the ladder")
    connection = node.connect()
    listed = {entry["run"]: entry for entry in connection.attach("term-2")}
    assert (listed["r1"]["exited"], listed["r1"]["signal"]) == (True, signal.SIGTERM)
    assert not listed["r0"]["exited"]
    assert is_alive(listed["r0"]["pid"])
    os.kill(listed["r0"]["pid"], signal.SIGKILL)
    assert connection.release("r0")["signal"] == signal.SIGKILL


def test_a_term_that_took_nothing_over_does_not_prolong_the_hold(node):
    """It attached and went again and again; only one that says so has renewed the leases."""
    node.start(hold=1.0, ladder=0.6)
    kill(start_holder(node, "sample.block"))
    attaches = 0
    while _workers(node):
        with suppress(ConnectionError, FileNotFoundError):  # by its end, at last
            connection = node.connect()
            connection.attach(None)
            connection.close()
            attaches += 1
        assert attaches < 1000
        time.sleep(0.1)  # it is the time between them that counts
    assert attaches > 1
    assert node.wait_end(3) == 0
    assert remains(node, "r0")["signal"] == signal.SIGTERM


def test_a_term_that_takes_its_runs_over_gives_the_hold_anew(node):
    """By retiring it: what the next loss leaves has its whole time."""
    node.start(hold=2.0, ladder=0.6)
    kill(start_holder(node, "sample.block"))
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        connection = node.connect()
        connection.attach(None)
        connection.order("retire")
        connection.close()
        time.sleep(0.1)  # in all more than the hold
    assert _workers(node)


def test_a_frozen_worker_is_thawed_by_the_ladder(node):
    """A stopped process keeps SIGTERM pending for ever unless it is continued."""
    node.start(hold=0.2, ladder=5.0)
    holder = start_holder(node, "sample.block")
    pid = wait_until(lambda: _workers(node), "the worker")[0]
    os.kill(pid, signal.SIGSTOP)
    kill(holder)
    assert node.wait_end(3) == 0
    assert remains(node, "r0")["signal"] == signal.SIGTERM


def test_when_forkserver_and_supervisor_are_gone_the_leash_ends_the_workers(node, subreaper):
    """Nobody is left to end them, whatever they are busy with, so the kernel's word has to reach each."""
    connection = node.start().attach()
    names = ["sample.loop", "sample.spin", "sample.deaf", "sample.block"]
    runs = [connection.start(f"r{number}", name) for number, name in enumerate(names)]
    waiting = connection.spawn("before-go")
    suspended = connection.start("suspended", "sample.block")
    for run in (*runs, suspended):
        run.wait_for("started")
    os.kill(suspended.pid, signal.SIGSTOP)
    pids = [run.pid for run in (*runs, suspended, waiting)]
    node.kill()
    assert all(is_alive(pid) for pid in pids)
    os.close(connection.leash)
    connection.leash = -1
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the leash", 2)


def test_while_the_supervisor_holds_the_leash_workers_outlive_the_forkserver(node, subreaper):
    """Its death costs only the reaping: their channels go on, and a stop still ends them well."""
    connection = node.start().attach()
    run = connection.start("r.1", "sample.loop")
    run.wait_for("started")
    node.kill()
    run.wait_for("checkpoint")
    run.down("stop")
    run.wait_for("stopping")
    run.finish()
    end = wait_until(lambda: os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG), "the end")
    assert (end.si_code, end.si_status) == (os.CLD_EXITED, 0)


def test_the_group_of_a_worker_ends_by_the_leash_too(node, subreaper):
    """A child that outlived its worker would go on without anybody who knows of it."""
    connection = node.start().attach()
    run = connection.start("r.1", "sample.family", {"kind": "group", "linger": True})
    grandchild = int(run.wait_for("checkpoint")["message"])
    node.kill()
    os.close(connection.leash)
    connection.leash = -1
    wait_until(lambda: not is_alive(run.pid) and not is_alive(grandchild), "the leash", 2)


@pytest.mark.parametrize("ended", range(5))
def test_a_supervisor_killed_at_any_moment_loses_no_frame(node, ended):
    """What it had not popped still lies in the sockets, which the forkserver kept open."""
    node.start()
    holder = start_holder(node, *["sample.pages"] * 4)
    wait_until(lambda: len(_workers(node)) <= 4 - ended, f"{ended} of its workers' ends")
    kill(holder)
    connection = node.attach("term-2")
    for number in range(4):
        run = connection.runs[f"r{number}"]
        assert run.finish()[:2] == ["ready", "started"]
        assert run.kinds()[-1] == "result"
        assert [frame["n"] for frame in run.frames] == list(range(1, len(run.frames) + 1))
