"""The file that `chong prune --archive` writes: on full disks, and when it is killed."""

import json
import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_world import S, World, clean_environment

from chong.cli.archive import Archive
from chong.store.errors import Refused
from chong.store.model import TaskRecord

LONG_AGO = datetime.now(UTC) - timedelta(days=100)
SCRIPT = Path(__file__).with_name("killed_in_archive.py")
MOST_CALLS = 20


def ended(world: World, count: int) -> list[TaskRecord]:
    for day in range(count):
        world.move(world.add(), S.SUCCEEDED, ended_at=LONG_AGO + timedelta(days=day))
    return world.store.prunable(timedelta(days=90))


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size`, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def unpacked(data: bytes) -> bytes:
    """As far as `zcat` gets."""
    text = b""
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            text += member.decompress(data)
        except zlib.error:
            break
        data = member.unused_data
    return text


def readable(path: Path) -> list[str]:
    """The tasks of an archive, up to the first line that is none."""
    if not path.exists():
        return []
    data = path.read_bytes()
    found = []
    for line in (unpacked(data) if path.suffix == ".gz" else data).splitlines(keepends=True):
        try:
            found.append(json.loads(line)["task"]["id"])
        except ValueError:
            break
    return found


def test_a_batch_that_does_not_fit_is_cut_off_again(world: World, tmp_path: Path):
    """Only its beginning was written: the archive ends with the last task of the batch before."""
    for day in range(4):
        task = world.add()
        ended = LONG_AGO + timedelta(days=day)
        world.move(task, S.SUCCEEDED, ended_at=ended, outcome="x" * (1000 if day < 2 else 200_000))
    records = world.store.prunable(timedelta(days=90))
    path = tmp_path / "a.jsonl"
    with closing(Archive(path)) as archive:
        archive.add(records[:2])
        with file_limit(100_000), pytest.raises(Refused, match="File too large"):
            archive.add(records[2:])
        assert readable(path) == [record.task.id for record in records[:2]]
        archive.add(records[2:])
    assert readable(path) == [record.task.id for record in records]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("kept", [(), (1,), (0, 2), (0, 1, 2)])
def test_of_the_newest_batch_only_what_is_to_be_kept_stays(world: World, tmp_path: Path, name: str, kept):
    """What was archived before stays, and what comes after it follows."""
    first, *batch, last = ended(world, 5)
    path = tmp_path / name
    with closing(Archive(path)) as archive:
        archive.add([first])
        archive.add(batch)
        archive.keep([batch[number] for number in kept])
        archive.add([last])
    wanted = [first, *(batch[number] for number in kept), last]
    assert readable(path) == [record.task.id for record in wanted]


def test_what_is_kept_and_has_no_room_in_the_archive_stays_beside_it(world: World, tmp_path: Path):
    """It is gone from the store; the error says where it is."""
    first, *batch = ended(world, 4)
    path, beside = tmp_path / "a.jsonl", tmp_path / "a.kept.jsonl"
    with closing(Archive(path)) as archive:
        archive.add([first] * 20)
        archive.add(batch)
        with file_limit(path.stat().st_size // 3), pytest.raises(Refused) as refused:
            archive.keep(batch[:2])
    assert f"archive {path}: File too large; what is not in it or in {beside} stays in the store" in str(refused.value)
    assert readable(path) == [first.task.id] * 20
    assert readable(beside) == [record.task.id for record in batch[:2]]


def test_what_has_no_room_beside_the_archive_changes_nothing_in_it(world: World, tmp_path: Path):
    """There is more in it than went; nothing is missing."""
    batch = ended(world, 3)
    path = tmp_path / "a.jsonl"
    with closing(Archive(path)) as archive:
        archive.add(batch)
        with file_limit(10), pytest.raises(Refused, match="what is not in it stays in the store"):
            archive.keep(batch[:2])
    assert readable(path) == [record.task.id for record in batch]
    assert list(tmp_path.glob("a*")) == [path]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_at_no_moment_is_one_missing_that_is_gone_from_the_store(world: World, tmp_path: Path, name: str):
    """Each of its calls is its last one once: what was kept is in the archive or beside it; what was before stays."""
    first, *batch = (record.task.id for record in ended(world, 4))
    for call in range(1, MOST_CALLS):
        path = tmp_path / str(call) / name
        beside = path.with_stem(f"{path.stem}.kept")
        path.parent.mkdir()
        words = [sys.executable, str(SCRIPT), str(world.path), str(path), str(call)]
        done = subprocess.run(words, env=clean_environment(world.state), check=False, timeout=60)
        found = readable(path)
        assert found[0] == first, call
        assert {first, *batch[:2]} <= {*found, *readable(beside)}, call
        assert len(found) == len(set(found)), call
        if done.returncode == 0:
            assert (found, beside.exists()) == ([first, *batch[:2]], False)
            return
        assert done.returncode == -signal.SIGKILL
    pytest.fail("it makes more calls than expected")


def test_what_a_kill_has_left_beside_an_archive_is_never_overwritten(world: World, chong, tmp_path: Path):
    """It may be all that there is of these tasks."""
    task = world.move(world.add(), S.SUCCEEDED, ended_at=LONG_AGO)
    beside = tmp_path / "a.jsonl.kept.gz"
    beside.write_text("precious")
    answer = chong("prune", "--older-than", "90d", "--archive", str(tmp_path / "a.jsonl.gz"))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert f"{beside} exists and is not overwritten" in answer.err
    assert world.store.get(task.id) is not None
    assert beside.read_text() == "precious"
