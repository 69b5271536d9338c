"""What `ps` and `show` say of tasks of which nobody says anything any more."""

from dataclasses import replace
from datetime import timedelta

from cli_world import S, World

from chong.store.model import CatalogueEntry, TaskSnapshot


def shown(chong, task: TaskSnapshot) -> str:
    return next(line for line in chong("ps").lines if task.id[-8:] in line)


def test_a_lease_that_is_past_is_told(world: World, chong):
    """In ps, in show and in JSON, with for how long; the state stays what it is, and others are not marked."""
    with world.ago(120):
        silent = world.add("a")
    living = world.add("b")
    assert "running (lease past 1m30s)" in shown(chong, silent)
    assert "running  " in shown(chong, living)
    assert "running (lease past 1m" in chong("show", silent.id).out
    assert "lease past" not in chong("show", living.id).out
    rows = {row["id"]: row for row in chong("ps", "--json").json}
    assert [rows[task.id]["lease_is_past"] for task in (silent, living)] == [True, False]
    assert (rows[silent.id]["status"], rows[silent.id]["node_is_live"]) == ("running", True)
    assert chong("show", silent.id, "--json").json["lease_is_past"] is True
    assert "lease past" in chong("reconcile", "--dry-run").out


def test_a_lease_of_a_clock_that_jumped_back_has_no_length(world: World, chong):
    """Its end lies ahead: it is past all the same, since when nobody knows."""
    with world.ago(-3600):
        task = world.add()
    assert "running (lease past)" in shown(chong, task)


def test_a_silent_node_is_told(world: World, chong):
    """Also of what waits there; what has ended needs nobody."""
    with world.ago(120):
        world.add_node("node-b", None)
    running = world.add("a", node="node-b")
    waiting = world.add("b", S.QUEUED, node="node-b")
    ended = world.add("c", S.FAILED, node="node-b")
    assert "running (node silent 2m00s)" in shown(chong, running)
    assert "queued (node silent 2m00s)" in shown(chong, waiting)
    assert "node-b (node silent 2m" in chong("show", waiting.id).out
    assert chong("show", ended.id, "--json").json["node_is_live"] is True
    assert "silent" not in chong("show", ended.id).out


def test_a_node_that_the_store_does_not_know_was_forgotten(world: World, chong):
    """Since when is not said: nothing is known of it."""
    assert "running (node forgotten)" in shown(chong, world.add(node="node-x"))


def test_the_gravest_mark_is_shown(world: World, chong):
    """A held name does not matter while nobody is there to start it; a frozen task is told from a paused one."""
    with world.ago(120):
        world.add_node("node-b", None)
    world.store.publish_catalogue("node-b", [CatalogueEntry(node="node-b", name="b", module="m", hold="by olga")])
    assert "queued (node silent" in shown(chong, world.add("b", S.QUEUED, node="node-b"))
    pausing = world.move(world.add("c"), S.PAUSING)
    frozen = world.move(pausing, S.PAUSED, flags=frozenset({"frozen"}))
    assert "paused (frozen)" in shown(chong, frozen)
    assert "paused (frozen)" in chong("show", frozen.id).out


def test_how_tasks_ended_is_seen_on_a_narrow_terminal(world: World, chong, monkeypatch):
    """END stays when others have to go: of eighty columns it has what is left."""
    monkeypatch.setenv("COLUMNS", "80")
    world.add("accounts.reconcile", S.FAILED)
    world.move(world.move(world.add(), S.STOPPING), S.STOPPED, exit_signal=9, forced=True)
    head, stopped, failed = chong("ps", "--all").lines
    assert head.split()[:3] == ["ID", "NAME", "STATUS"]
    assert head.split()[-1] == "END"
    assert "exception ValueError" in failed
    assert "forced by SIGKILL" in stopped
    monkeypatch.delenv("COLUMNS")
    assert len(chong("ps", "--all").lines[0].split()) == 13


def test_what_never_started_has_not_run(world: World, chong):
    """The wait between a failure and the stop that cancels its retry is no running time."""
    cancelled = world.move(world.add(status=S.RETRYING, started_at=world.add().created_at), S.CANCELLED)
    head, line = (text.split() for text in chong("ps", "--all", "--status", "cancelled").lines)
    assert line[head.index("RAN")] == "-"
    assert "ran  " not in chong("show", cancelled.id).out


def test_show_counts_the_moments_of_a_stop_from_the_first(world: World, chong):
    """What has not come yet is told so, and what never came."""
    stopping = world.move(world.add(), S.STOPPING)
    text = chong("show", stopping.id).out
    assert "acknowledged     not yet\n" in text
    assert "effective        not yet\n" in text
    late = replace(stopping.stop, effective_at=stopping.stop.asked_at + timedelta(seconds=12))
    world.move(stopping, S.STOPPED, stop=late, exit_signal=9, forced=True)
    text = chong("show", stopping.id).out
    assert "(after 12s)" in text
    assert "acknowledged     never, it met no checkpoint\n" in text
    assert "yes, SIGKILL had to end it" in text
    assert "exit signal      9 (SIGKILL)\n" in text
