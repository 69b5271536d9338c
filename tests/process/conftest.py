import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("node_bench")

import node_places  # noqa: E402
from node_bench import InProcess  # noqa: E402

place = node_places.place


@pytest.fixture
def bench() -> Iterator[InProcess]:
    """A place for a node in this process, not started yet; at the end nothing of it may be left."""
    made = InProcess()
    try:
        yield made
    finally:
        made.finish()


@pytest.fixture
def node(bench: InProcess) -> InProcess:
    """A running node that owns every bucket."""
    return bench.start()


@pytest.fixture(scope="module")
def shared() -> Iterator[InProcess]:
    """As `node`, for all tests of a module that only submit tasks and look at how they end."""
    made = InProcess()
    try:
        yield made.start()
    finally:
        made.finish()
