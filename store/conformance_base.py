"""What all parts of the conformance suite share: a store on a clock that stands still."""

from collections.abc import Iterator

import pytest

from chong.store.contract import TaskStore
from chong.store.specimens import SetClock


class Rules:
    """A subclass says how to make an empty store."""

    def make_store(self, clock: SetClock) -> TaskStore:
        """An empty store that takes its time from calling `clock`."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> SetClock:
        return SetClock()

    @pytest.fixture
    def store(self, clock: SetClock) -> Iterator[TaskStore]:
        with self.make_store(clock) as store:
            yield store
