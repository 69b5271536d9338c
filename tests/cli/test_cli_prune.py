"""`chong prune`: what is old goes, and only after it was written down where that is wanted."""

import gzip
import json
import resource
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_world import Answer, S, World, clean_environment

from chong.store.errors import StoreUnavailable
from chong.store.model import Note, TaskSnapshot
from chong.store.sqlite import SqliteTaskStore

LONG_AGO = datetime.now(UTC) - timedelta(days=100)


def old(world: World, **facts: Any) -> TaskSnapshot:
    """A task that ended a hundred days ago."""
    task = world.add(**facts)
    return world.move(task, S.SUCCEEDED, ended_at=LONG_AGO)


def lines(path: Path) -> list[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().splitlines()]


def test_what_ended_long_ago_goes(world: World, chong):
    """What is open or young stays; how much went is said."""
    gone, young, running = old(world), world.add(status=S.SUCCEEDED), world.add()
    answer = chong("prune", "--older-than", "90d")
    assert (answer.code, answer.out) == (0, "1 task removed, and 0 old firings and terms\n")
    assert [world.store.get(task.id) is None for task in (gone, young, running)] == [True, False, False]


def test_traces_of_schedules_go_along(world: World, chong):
    """But never the newest firing of a schedule."""
    with world.ago(100 * 86_400):
        for minute in (1, 2):
            planned = LONG_AGO + timedelta(minutes=minute)
            world.store.claim_firing("a", None, planned, node="node-a", event_id=str(minute))
    assert chong("prune", "--older-than", "90d", "--json").json["traces"] == 1


def test_a_dry_run_only_counts(world: World, chong, tmp_path: Path):
    """No row, no file."""
    task = old(world)
    answer = chong("prune", "--older-than", "90d", "--dry-run", "--archive", str(tmp_path / "a.jsonl"))
    assert answer.out == "1 task would be removed\n"
    assert world.store.get(task.id) is not None
    assert list(tmp_path.glob("a*")) == []


def test_a_store_that_does_not_answer_leaves_the_batch_in_both_and_says_so(world: World, chong, tmp_path, monkeypatch):
    """Nobody knows whether it went, so nothing is taken out of the archive."""
    task = old(world)

    def away(*_: Any) -> None:
        raise StoreUnavailable("store: away")

    monkeypatch.setattr(SqliteTaskStore, "prune", away)
    answer = chong("prune", "--older-than", "90d", "--archive", str(tmp_path / "a.jsonl"))
    assert (answer.code, answer.err.splitlines()) == (
        3,
        [
            (
                f"chong: the last batch of {tmp_path / 'a.jsonl'} (1 task) may still be in the store; "
                "the next prune then archives it once more"
            ),
            "chong: store: away",
        ],
    )
    assert [line["task"]["id"] for line in lines(tmp_path / "a.jsonl")] == [task.id]


@pytest.mark.parametrize("name", ["old.jsonl", "old.jsonl.gz"])
def test_the_archive_has_exactly_what_went(world: World, chong, tmp_path: Path, name: str):
    """Each task with its trail, notes and commands, in more than one batch."""
    tasks = [old(world) for _ in range(201)]
    young = world.add(status=S.SUCCEEDED)
    first = tasks[0]
    world.store.append([Note(task_id=first.id, kind="odd_exit", at=LONG_AGO, actor="a", event_id="1", detail="é")])
    chong("stop", first.id, "--reason", "late")
    trail = [step.target for step in world.store.history(first.id)]
    path = tmp_path / name
    said = chong("prune", "--older-than", "90d", "--archive", str(path), "--json").json
    assert said == {"tasks": 201, "traces": 0, "archive": str(path), "dry_run": False}
    kept = {line["task"]["id"]: line for line in lines(path)}
    assert set(kept) == {task.id for task in tasks}
    assert world.store.get(young.id) is not None
    assert [step["target"] for step in kept[first.id]["history"]] == trail
    assert [note["detail"] for note in kept[first.id]["notes"]] == ["é"]
    assert (path.stat().st_mode & 0o777, world.store.count_prunable(timedelta(days=90))) == (0o600, 0)


def test_without_old_tasks_there_is_no_archive(world: World, chong, tmp_path: Path):
    """An empty file would look like one that was lost."""
    assert chong("prune", "--older-than", "90d", "--archive", str(tmp_path / "a.jsonl")).code == 0
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize("kind", ["file", "dangling link", "directory"])
def test_an_existing_archive_is_never_overwritten(world: World, chong, tmp_path: Path, kind: str):
    """Refused before anything is removed."""
    task, path = old(world), tmp_path / "a.jsonl"
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    answer = chong("prune", "--older-than", "90d", "--archive", str(path))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "is not overwritten" in answer.err
    assert world.store.get(task.id) is not None
    assert kind != "file" or path.read_text() == "precious"


@pytest.mark.parametrize("name", ["-", ""])
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_what_is_no_file_is_no_archive(world: World, chong, tmp_path: Path, monkeypatch, name: str, more):
    """A pipe may lose what is gone from the store, and an empty name is a variable that is not set."""
    monkeypatch.chdir(tmp_path)
    task = old(world)
    answer = chong("prune", "--older-than", "90d", "--archive", name, *more)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"'--archive': expected the name of a file, got {name!r}" in answer.err
    assert world.store.get(task.id) is not None
    assert not (tmp_path / "-").exists()


def test_a_file_may_be_called_like_a_stream(world: World, chong, tmp_path: Path, monkeypatch):
    """As the refusal says."""
    monkeypatch.chdir(tmp_path)
    task = old(world)
    assert chong("prune", "--older-than", "90d", "--archive", "./-").code == 0
    assert [line["task"]["id"] for line in lines(tmp_path / "-")] == [task.id]


def pruned_with_room(world: World, path: Path, room: int) -> Answer:
    """As on a disk with so much room left: no file of the process may grow beyond it."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(
        [sys.executable, "-m", "chong.cli", "prune", "--older-than", "90d", "--archive", str(path)],
        env=clean_environment(world.state),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=30,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_what_does_not_fit_into_the_archive_stays(world: World, tmp_path: Path):
    """A full disk in the middle: what is in the archive is gone from the store, what is not is still there."""
    task = world.add()
    world.move(task, S.SUCCEEDED, ended_at=LONG_AGO, outcome="x" * 300_000)
    younger = world.add()
    big = world.move(younger, S.SUCCEEDED, ended_at=LONG_AGO + timedelta(days=1), outcome="x" * 300_000)
    path = tmp_path / "a.jsonl"
    answer = pruned_with_room(world, path, 100_000)
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert f"archive {path}: File too large" in answer.err
    assert path.read_bytes() == b""
    assert [world.store.get(each.id) is not None for each in (task, big)] == [True, True]


def test_a_directory_that_is_not_there_costs_nothing(world: World, chong, tmp_path: Path):
    """One line, and all rows stay."""
    task = old(world)
    answer = chong("prune", "--older-than", "90d", "--archive", str(tmp_path / "no" / "a.jsonl"))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert f"expected a directory that can be written to, got {tmp_path / 'no'}" in answer.err
    assert world.store.get(task.id) is not None


def test_a_directory_that_is_not_there_is_told_before_there_are_old_tasks(world: World, chong, tmp_path: Path):
    """Else the first prune that matters would be the first to fail."""
    assert chong("prune", "--older-than", "90d", "--archive", str(tmp_path / "no" / "a.jsonl")).code == 2


@pytest.mark.parametrize("age", ["soon", "-3d", "99999999999999999999d"])
def test_an_age_that_is_none_is_refused(world: World, chong, age: str):
    """Before anything is read."""
    answer = chong("prune", f"--older-than={age}")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "expected a length of time" in answer.err


@pytest.mark.parametrize(
    ("age", "advice"),
    [
        ("0", "--dry-run counts what would go"),
        ("0d", "--dry-run counts what would go"),
        ("1ms", "--dry-run counts what would go"),
        ("23h59m", "--dry-run counts what would go"),
        ("90", "did you mean 90d?"),
    ],
)
def test_what_ended_today_goes_only_with_a_yes(world: World, chong, age: str, advice: str):
    """Nought would remove all that is finished, and a bare number is seconds: nothing goes by a slip."""
    ended, before = world.add(status=S.SUCCEEDED), old(world)
    refused = chong("prune", "--older-than", age)
    expected = f"chong: --older-than: expected at least 1d, or --yes beside it, got {age!r}; {advice}\n"
    assert (refused.code, refused.out, refused.err) == (2, "", expected)
    assert chong("prune", "--older-than", age, "--dry-run").code == 0
    assert None not in [world.store.get(task.id) for task in (ended, before)]


@pytest.mark.parametrize(
    ("words", "remarked"),
    [
        (("0",), "chong: --older-than: '0' is less than 1d, so to remove them takes --yes\n"),
        (("90",), "chong: --older-than: '90' is less than 1d, so to remove them takes --yes; did you mean 90d?\n"),
        (("0", "--yes"), ""),
        (("1d",), ""),
    ],
)
def test_a_dry_run_says_whether_a_yes_will_be_needed(world: World, chong, words, remarked):
    """What it counts is else refused by the next command."""
    for more in ((), ("--json",)):
        answer = chong("prune", "--older-than", *words, "--dry-run", *more)
        assert (answer.code, answer.err) == (0, remarked)


def test_a_yes_removes_all_that_is_finished(world: World, chong, tmp_path: Path):
    """Archived first like anything else; what is open stays."""
    ended, running = world.add(status=S.SUCCEEDED), world.add()
    assert chong("prune", "--older-than", "0", "--dry-run", "--json").json["tasks"] == 1
    path = tmp_path / "a.jsonl"
    answer = chong("prune", "--older-than", "0", "--yes", "--archive", str(path))
    assert (answer.code, answer.out) == (0, "1 task removed, and 0 old firings and terms\n")
    assert [line["task"]["id"] for line in lines(path)] == [ended.id]
    assert world.store.get(running.id) is not None


def test_a_dry_run_says_nothing_of_what_it_has_not_counted(world: World, chong):
    """Nought firings would be a claim."""
    old(world)
    said = chong("prune", "--older-than", "90d", "--dry-run", "--json").json
    assert said == {"tasks": 1, "traces": None, "archive": None, "dry_run": True}


def test_ages_beyond_time_itself_remove_nothing(world: World, chong):
    """Older than the calendar."""
    task = old(world)
    assert chong("prune", "--older-than", "900000d").code == 0
    assert world.store.get(task.id) is not None
