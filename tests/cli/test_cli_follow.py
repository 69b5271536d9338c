"""Following a task over its attempts."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from chong.cli.follow import Follower, Output
from chong.store.specimens import moved, queued, start_of
from chong.store.states import Status


@pytest.mark.parametrize(("has_moved_on", "said"), [(True, "is over; going"), (False, "is over, the task is retrying")])
def test_an_attempt_that_is_over_is_not_told_by_the_next_ones_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_moved_on: bool, said: str
):
    """The task may have succeeded by the time that anybody looks; its first attempt has not."""
    first = moved(start_of(queued(max_attempts=2)), Status.RUNNING)
    retrying = moved(first, Status.RETRYING)
    done = replace(moved(first, Status.SUCCEEDED), attempt=2)
    looks = iter([done] if has_moved_on else [retrying, done])
    latest = [first]

    def look():
        latest[0] = next(looks, latest[0])
        return latest[0]

    follower = Follower(look, lambda attempt: tmp_path / f"{attempt}.log", Output(io.StringIO()))
    assert follower.follow(first).status is Status.SUCCEEDED
    assert said in capsys.readouterr().err
