"""The fixture of `chong.worker.testing`, which pytest imports by itself. PYTEST_DONT_REWRITE."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from chong.worker.running_node import RunningNode


@pytest.fixture
def chong_node() -> Iterator[Callable[..., RunningNode]]:
    """Call it with task modules, and options of `RunningNode`: a node for this test, ended and removed after it."""
    with ExitStack() as stack:

        def start(*modules: str, **options: Any) -> RunningNode:
            return stack.enter_context(RunningNode(*modules, **options))

        yield start
