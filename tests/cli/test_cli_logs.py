"""`chong logs`: what is there, what comes, and what has gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_world import S, World, clean_environment
from waiting import wait_until

from chong.cli.runlog import LogReader
from chong.store.model import TaskSnapshot
from chong.supervisor.identity import pin_identity
from chong.supervisor.logbounds import PAGE, punch


class Following:
    """`chong logs -f` in a process of its own; `has` waits for output."""

    def __init__(self, world: World, *args: str) -> None:
        self._out, self._err = world.state / "out", world.state / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "chong.cli", "logs", "--follow", *args],
                env=clean_environment(world.state),
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def has(self, text: str) -> None:
        wait_until(lambda: text in self.out + self.err, f"{text!r} of the follower")

    def end(self) -> int:
        return self.process.wait(20)


@pytest.fixture
def follow(world: World) -> Iterator[Callable[..., Following]]:
    made: list[Following] = []

    def started(*args: str) -> Following:
        made.append(Following(world, *args))
        return made[-1]

    pin_identity(world.state / "node.json", "node-a")
    (world.state / "logs").mkdir()
    yield started
    for each in made:
        each.process.kill()
        each.process.wait()


def log_of(world: World, task: TaskSnapshot, attempt: int = 1) -> Path:
    return world.state / "logs" / f"{task.id}.{attempt}.log"


def write(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def holed(path: Path, *, pages: int, rest: bytes) -> None:
    path.write_bytes(b"x" * pages * PAGE + rest)
    with path.open("r+b") as log:
        punch(log.fileno(), pages * PAGE)


def test_follow_prints_what_comes_until_the_end(world: World, follow):
    """And all of it, also what was written just before the end."""
    task = world.add()
    write(log_of(world, task), "one\n")
    following = follow(task.id)
    following.has("one")
    write(log_of(world, task), "two\n")
    following.has("two")
    write(log_of(world, task), "three\n")
    world.move(task, S.SUCCEEDED)
    assert following.end() == 0
    assert (following.out, following.err) == ("one\ntwo\nthree\n", "")


def test_follow_goes_on_with_the_next_attempt(world: World, follow):
    """It waits where a retry waits, and says so."""
    task = world.add()
    write(log_of(world, task), "first\n")
    following = follow(task.id)
    following.has("first")
    task = world.move(task, S.RETRYING)
    following.has("attempt 1 is over, the task is retrying")
    task = world.start(task)
    write(log_of(world, task, 2), "second\n")
    world.move(task, S.SUCCEEDED)
    assert following.end() == 0
    assert following.out == "first\nsecond\n"


def test_follow_of_one_attempt_ends_with_it(world: World, follow):
    """Whatever the task does afterwards."""
    task = world.add()
    write(log_of(world, task), "first\n")
    following = follow(task.id, "--attempt", "1")
    following.has("first")
    world.move(task, S.RETRYING)
    assert (following.end(), following.err) == (0, "")


def test_follow_waits_for_a_start(world: World, follow):
    """A task that was only just submitted has no log yet."""
    task = world.add(status=S.QUEUED)
    following = follow(task.id)
    task = world.start(task)
    write(log_of(world, task), "begun\n")
    following.has("begun")
    world.move(task, S.SUCCEEDED)
    assert following.end() == 0


def test_ctrl_c_ends_following_quietly(world: World, follow):
    """With the code that shells expect."""
    task = world.add()
    write(log_of(world, task), "one\n")
    following = follow(task.id)
    following.has("one")
    following.process.send_signal(signal.SIGINT)
    assert (following.end(), following.err) == (130, "")


def test_what_was_cut_while_following_is_never_shown_as_zeros(world: World, follow):
    """It is said how much was missed."""
    task = world.add()
    path = log_of(world, task)
    write(path, "one\n")
    following = follow(task.id)
    following.has("one")
    # Frozen, it cannot look between the write and the cut.
    os.kill(following.process.pid, signal.SIGSTOP)
    with path.open("ab") as log:
        log.write(b"x" * (4 * PAGE - 4) + b"two\n")
    with path.open("r+b") as log:
        punch(log.fileno(), 4 * PAGE)
    os.kill(following.process.pid, signal.SIGCONT)
    following.has("two")
    world.move(task, S.SUCCEEDED)
    assert following.end() == 0
    assert following.out == "one\ntwo\n"
    assert f"{4 * PAGE - 4} bytes of this log are gone" in following.err


def test_what_was_cut_is_told_beside_what_is_left(world: World, follow, chong):
    """On standard error, so that the output is the task's alone; as a number in JSON."""
    del follow
    task = world.add()
    holed(log_of(world, task), pages=3, rest=b"left\n")
    answer = chong("logs", task.id)
    assert (answer.code, answer.out) == (0, "left\n")
    assert answer.err == f"chong: {3 * PAGE} bytes of this log are gone, the oldest go first (log_max)\n"
    found = chong("logs", task.id, "--json").json
    assert (found["bytes_gone"], found["text"]) == (3 * PAGE, "left\n")


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 9, "a\nb\n"),
        ("a\n\n\n", 1, "\n"),
        ("a\nb\n", 0, ""),
        ("", 3, ""),
        ("x" * 200_000 + "\nlast\n", 1, "last\n"),
        ("first\n" + "x" * 200_000, 1, "x" * 200_000),
    ],
)
def test_tail_prints_the_last_lines(world: World, follow, chong, text: str, lines: int, expected: str):
    """Whether the last one is whole or not."""
    del follow
    task = world.add()
    log_of(world, task).write_text(text)
    assert chong("logs", task.id, "--tail", str(lines)).out == expected


def test_tail_and_follow_begin_near_the_end(world: World, follow):
    """As one looks at a long log."""
    task = world.add()
    write(log_of(world, task), "one\ntwo\n")
    following = follow(task.id, "--tail", "1")
    following.has("two")
    write(log_of(world, task), "three\n")
    world.move(task, S.SUCCEEDED)
    assert following.end() == 0
    assert following.out == "two\nthree\n"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--follow", "--json"], 2, "expected it without --follow"),
        (["--tail", "-1"], 2, "-1"),
        (["--follow", "--attempt", "2"], 1, "expected 1 to 1, got 2"),
        (["--attempt", "0"], 2, "--attempt"),
        (["--follow"], 1, "there is no file"),
    ],
)
def test_refusals(world: World, follow, chong, args: list[str], code: int, said: str):
    """One line each; an attempt that is over and has no log is nothing to wait for."""
    del follow
    task = world.add(status=S.SUCCEEDED)
    answer = chong("logs", task.id, *args)
    assert (answer.code, answer.err.count("\n")) == (code, 1)
    assert said in answer.err


def test_a_log_that_was_emptied_is_read_from_its_beginning(tmp_path: Path):
    """As on a file system without holes."""
    path = tmp_path / "a.log"
    write(path, "one two three\n")
    with closing(LogReader(path)) as reader:
        assert read(reader) == b"one two three\n"
        os.truncate(path, 0)
        write(path, "four\n")
        assert read(reader) == b"four\n"


def test_a_cut_between_two_reads_is_skipped(tmp_path: Path):
    """Whatever of it was not read yet is counted."""
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * PAGE)
    with closing(LogReader(path)) as reader:
        read(reader)
        with path.open("ab") as log:
            log.write(b"y" * 2 * PAGE)
        with path.open("r+b") as log:
            punch(log.fileno(), 2 * PAGE)
        assert (read(reader), reader.gone) == (b"y" * PAGE, PAGE)


def read(reader: LogReader) -> Any:
    return b"".join(reader.read())
