"""reconcile: who is called lost, and who is not."""

import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from cli_world import TERM, S, World

from chong.cli import reconcile
from chong.store.errors import StoreUnavailable
from chong.supervisor.reconcile import REASON


def ids(answer):
    return {row["id"] for row in answer.json}


def past(world: World, *names: str, **facts):
    """Running tasks whose lease of 0.3 s is past."""
    with world.ago(60):
        return [world.add(name, ttl=0.3, **facts) for name in names]


def in_first_pause(monkeypatch, act) -> None:
    """`act` happens while the leases are being watched: after the first look, before the second."""
    acts = [act]

    def sleep(seconds: float) -> None:
        while acts:
            acts.pop()()
        time.sleep(seconds)

    monkeypatch.setattr(reconcile, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))


class SetTime:
    """In place of the module `time`: to sleep only moves the clock."""

    def __init__(self) -> None:
        self.slept = 0.0

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_dry_run_answers_at_once(world: World, chong):
    """Candidates are runs of ours with a past lease; nothing is written."""
    world.add("alive")
    world.add("waiting", S.QUEUED)
    (ours,) = past(world, "ours", bucket=3, bucket_key="k")
    assert ids(chong("reconcile", "--dry-run", "--json")) == {ours.id}
    assert ids(chong("--owned-buckets", "0-3", "reconcile", "--dry-run", "--json")) == {ours.id}
    assert ids(chong("--owned-buckets", "4-9", "reconcile", "--dry-run", "--json")) == set()
    assert world.store.get(ours.id).status is S.RUNNING


def test_a_dead_holder_is_called_lost_after_one_lease(world: World, chong, monkeypatch):
    """Only what nobody renewed while it was watched; exit 0, and the lost ones are printed."""
    (dead,) = past(world, "dead")
    alive = world.add("alive")
    in_first_pause(monkeypatch, lambda: world.store.renew(TERM, [alive.id], timedelta(seconds=30)))
    start = time.monotonic()
    answer = chong("reconcile", "--json")
    assert time.monotonic() - start >= 0.3
    assert (answer.code, ids(answer)) == (0, {dead.id})
    assert world.store.get(alive.id).status is S.RUNNING
    last = world.store.history(dead.id)[-1]
    assert (last.target, last.reason) == (S.LOST, REASON)
    assert "@" in last.actor


def test_a_lease_that_is_not_past_yet_is_waited_for(world: World, chong):
    """Asked right after a crash, it does not answer "nothing" only because the lease still runs."""
    task = world.add("just-died", ttl=0.5)
    assert ids(chong("reconcile", "--json")) == {task.id}


def test_a_holder_that_comes_back_is_spared(world: World, chong, monkeypatch):
    """A renewal while watched shows that somebody lives."""
    (task,) = past(world, "slow")
    in_first_pause(monkeypatch, lambda: world.store.renew(TERM, [task.id], timedelta(seconds=30)))
    assert chong("reconcile", "--json").json == []
    assert world.store.get(task.id).status is S.RUNNING


def test_what_is_watched_is_said_once_where_there_is_no_terminal(monkeypatch, capsys):
    """After a second, and how long it may take; what ends before is not worth a word."""
    monkeypatch.setattr(reconcile, "time", clock := SetTime())
    patience = reconcile.Patience()
    patience.note_answer(2, 30)
    clock.sleep(0.9)
    patience.note_answer(2, 30)
    assert capsys.readouterr().err == ""
    for count in (2, 1):
        clock.sleep(0.2)
        patience.note_answer(count, 30)
    said = "chong: no answer yet: watching 2 leases for at most 30s, as a holder that lives renews its own meanwhile\n"
    assert capsys.readouterr().err == said


def test_a_watch_is_told_on_standard_error(world: World, chong):
    """What was called lost stands alone on standard output."""
    task = world.add("just-died", ttl=2.5)
    answer = chong("reconcile", "--json")
    assert (answer.code, ids(answer)) == (0, {task.id})
    assert answer.err.startswith("chong: no answer yet: watching 1 lease for at most 2.5s, ")
    assert answer.err.count("\n") == 1


def test_an_outage_is_waited_out_but_not_for_ever(monkeypatch):
    """As long as the store answers the patience is renewed."""
    monkeypatch.setattr(reconcile, "time", clock := SetTime())
    patience = reconcile.Patience()
    for _ in range(3):
        patience.sleep(reconcile.OUTAGE_SECONDS * 0.6)
        patience.note_answer(1, 30)
    patience.sleep(reconcile.OUTAGE_SECONDS + 1)
    slept = clock.slept
    with pytest.raises(StoreUnavailable, match="has been out of reach"):
        patience.sleep(1)
    assert slept == clock.slept


def test_without_runs_it_ends_at_once(world: World, chong, monkeypatch):
    """Where there is nothing to watch, it never pauses."""
    world.add("waiting", S.QUEUED)
    monkeypatch.setattr(reconcile, "time", clock := SetTime())
    assert chong("reconcile").code == 0
    assert clock.slept == 0
