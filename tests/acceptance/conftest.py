import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "process"))
pytest.register_assert_rewrite("node_bench")

import node_places  # noqa: E402
from node_bench import Supervised  # noqa: E402

place = node_places.place


@pytest.fixture
def node(place: Supervised) -> Supervised:
    """A running `chong-supervisor`."""
    return place.start()


@pytest.fixture(scope="module")
def shared() -> Iterator[Supervised]:
    """As `node`, for all tests of a module."""
    made = Supervised()
    try:
        yield made.start()
    finally:
        made.finish()
