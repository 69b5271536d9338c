"""The whole contract through a pooler that gives each transaction another server connection."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pg_server import Databases
from pooler import Pooler

from chong.store.conformance import StoreContract
from chong.store.postgres import PostgresTaskStore
from chong.store.specimens import SetClock


@pytest.fixture(scope="module")
def pooler(databases: Databases) -> Iterator[Pooler]:
    with Pooler(databases.address) as pooler:
        yield pooler


def test_a_pooler_that_does_not_come_up_leaves_nothing(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its process nor its directory."""

    def fail(_: Pooler) -> bool:
        raise AssertionError("it does not listen")

    monkeypatch.setattr(Pooler, "_is_listening", fail)
    before = children()
    made = Pooler(databases.address)
    with pytest.raises(AssertionError, match="does not listen"), made:
        pass
    assert not made.place.exists()
    assert children() == before


def children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text().split())


class TestPooled(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, emptied: str, pooler: Pooler) -> None:
        self.address = pooler.of(emptied)

    def make_store(self, clock: SetClock) -> PostgresTaskStore:
        return PostgresTaskStore(self.address, clock=clock)

    def test_calls_share_fewer_connections_than_there_are_clients(self, store: PostgresTaskStore) -> None:
        """It is really the pooler that is spoken to."""
        with psycopg.connect(self.address) as one, psycopg.connect(self.address) as two:
            pids = []
            for connection in (one, two, one, two):
                row = connection.execute("SELECT pg_backend_pid()").fetchone()
                assert row is not None
                pids.append(row[0])
                connection.commit()
        assert len(set(pids)) < len(pids)
