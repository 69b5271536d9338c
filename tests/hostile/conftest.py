import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "process")]
pytest.register_assert_rewrite("node_bench", "witness", "judge")

from node_bench import Supervised  # noqa: E402


@pytest.fixture
def place() -> Iterator[Supervised]:
    """A place for supervisors, none started yet; at the end nothing of them may be left."""
    made = Supervised()
    try:
        yield made
    finally:
        made.finish()
