"""What the tests of the command line share."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_world import Answer, World
from waiting import wait_until

from chong.cli import wait
from chong.cli.main import run


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    state = tmp_path / "state"
    state.mkdir()
    made = World(state)
    yield made
    made.store.close()


@pytest.fixture
def another_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until a command that waits, `chong ... --wait`, has looked again and found nothing yet."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    def wait_for_look() -> None:
        before = len(pauses)
        wait_until(lambda: len(pauses) > before + 1, "another look")  # the first may have begun before

    monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return wait_for_look


@pytest.fixture
def chong(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`chong ARGS` on the world, in this process: where a process of its own would add nothing but time."""
    for name in ("DB", "NUM_BUCKETS", "OWNED_BUCKETS", "NODE", "RUNTIME_DIR"):
        monkeypatch.delenv(f"CHONG_{name}", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("CHONG_STATE_DIR", str(world.state))
    monkeypatch.setenv("CHONG_CONFIG", "/dev/null")

    def called(*args: str) -> Answer:
        capsys.readouterr()
        code = run(args)
        written = capsys.readouterr()
        return Answer(code, written.out, written.err)

    return called
