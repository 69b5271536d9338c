import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "process"))
pytest.register_assert_rewrite("node_bench")

import node_places  # noqa: E402
from node_bench import Enter, Supervised  # noqa: E402

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


@pytest.fixture
def fleet(database: str) -> Iterator[Enter]:
    """Starts one more node on the shared store."""
    nodes: list[Supervised] = []

    def enter(*options: str, **more: object) -> Supervised:
        node = Supervised()
        nodes.append(node)
        node.share(database)
        return node.start(*options, **more)

    try:
        yield enter
    finally:
        for node in nodes:
            node.finish()


@pytest.fixture
def outside(database: str) -> Iterator[Supervised]:
    """A machine that runs no node, and has the address of the store."""
    place = Supervised()
    place.share(database)
    try:
        yield place
    finally:
        place.finish()
