"""Fixtures for real supervisors, for the folders of tests that start some."""

from collections.abc import Iterator

import pytest
from node_bench import Supervised


@pytest.fixture
def place() -> Iterator[Supervised]:
    """A place for supervisors, none started yet; at the end nothing of them may be left."""
    made = Supervised()
    try:
        yield made
    finally:
        made.finish()
